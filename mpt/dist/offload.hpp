// SPDX-License-Identifier: MIT
/// @file offload.hpp
/// An optimizer's step with its states outside of the device.              tier 6, needs:
/// base/memory.hpp base/trace.hpp dist/device_weights.hpp dist/state_store.hpp
/// dist/transfers.hpp dist/weight_place.hpp nn/cpu.hpp nn/params.hpp nn/strategy.hpp
/// train/update_pass.hpp
///
/// Idea     offload wraps the optimizer, not the strategy: it takes gradients on the host, whoever
///          brought them there, and what the rank owns of the weights, wherever they are. A part's
///          update is the optimizer's own step on that part, by the CPU; its weights travel to the
///          device, or to a file, while the next part is updated.
/// Formula  states of none = host = file, bit for bit: an element's update needs no other's
/// Costs    device: nothing but weights.  host: what the store and the weights' target have
/// Breaks   optimizers that need a whole tensor before they move a weight (LAMB), or keep moments
///          in other forms (8 bits, bf16): refused when compiled. An error in the middle: some
///          parts are a step ahead, so every later step is refused
/// Source   Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840, section 5.1 (copies under it)
/// See      host_states.hpp, file_states.hpp (stores), device_weights.hpp, host_weights.hpp,
///          file_weights.hpp (targets), leaving_rank.hpp, tests/dist/offload_test.cpp
#pragma once
#include "mpt/base/memory.hpp"         // memory
#include "mpt/base/trace.hpp"          // trace, range
#include "mpt/dist/device_weights.hpp" // device_weights
#include "mpt/dist/state_store.hpp"    // state_store, state_part
#include "mpt/dist/transfers.hpp"      // transfers
#include "mpt/dist/weight_place.hpp"   // weight_target
#include "mpt/nn/cpu.hpp"              // cpu
#include "mpt/nn/params.hpp"           // pieces, layout
#include "mpt/nn/strategy.hpp"         // owned_gradients
#include "mpt/train/update_pass.hpp"   // optimizer_state

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace mpt {

/// Can `rule` update a part of the weights, and then another, as if they were one? Those that add
/// up numbers over tensors take a function for it as last argument, and cannot.
template <class Rule, class T>
concept updates_in_parts = requires(Rule rule, const cpu& on, const layout& map,
                                    optimizer_state<T> own, pieces<const T> g) {
    rule.step(on, map, own, g, 1.0, 1.0);
}
&&!requires(Rule rule, const cpu& on, const layout& map, optimizer_state<T> own, pieces<const T> g,
            void (*add)(std::span<double>)) {
    rule.step(on, map, own, g, 1.0, 1.0, add);
};

/// All that a rank owns, packed (blocks.hpp): to save and to restore. m, v: empty where none.
template <class W>
struct packed_states {
    std::span<W> master, m, v;
};

template <class T>
class offload {
public:
    using W = wide_t<T>;

    /// mine: as strategy::mine() says, and as `store` was made for. All outlive it.
    offload(memory& mem, pieces<T> mine, state_store<T>& store, transfers& copies,
            mpt::trace* seen = nullptr)
        : here_(std::make_unique<device_weights<T>>(mem, std::move(mine), store.largest(), copies,
                                                    seen)),
          weights_(*here_), store_(store), seen_(seen) {}
    /// weights: where the new ones go, if not to the device; `store` was made for its mine().
    offload(weight_target<T>& weights, state_store<T>& store, mpt::trace* seen = nullptr)
        : weights_(weights), store_(store), seen_(seen) {}

    /// One step; arguments, errors and bits as adamw::step, of gradients in host memory. Returns
    /// when the new weights are where they belong.
    template <class Rule, class G>
    void step(Rule& rule, const cpu& host, const layout& map, const pieces<G>& grads, double factor,
              double lr) {
        static_assert(updates_in_parts<Rule, T>, "offload: this optimizer needs more than a part");
        require_whole();
        check_same_pieces("offload: weights and gradients", weights_.mine(), grads);
        check(rule.moments() == store_.moments(), "offload: the optimizer keeps ", rule.moments(),
              " numbers a weight, the store ", store_.moments(), "; make both for one optimizer");
        if (store_.parts().empty())
            return rule.step(host, map, optimizer_state<T>{}, pieces<G>{}, factor,
                             lr); // it counts its steps
        const Rule before = rule;
        for (std::size_t k = 0; k < store_.parts().size(); ++k) {
            const block& b = store_.parts()[k];
            const std::size_t begin = weights_.mine()[b.piece].begin + b.begin; // in the flat one
            const state_part<W> states = take(k);
            const device_span<T> low = weights_.room(k, b);
            rule = before;
            {
                const range r(seen_, lane::compute, "update", join("\"part\":", k));
                rule.step(host, map,
                          optimizer_state<T>{
                              {{states.master, begin}}, states.m, states.v, {{low, begin}}, {}},
                          pieces<G>{{grads[b.piece].data.subspan(b.begin, b.size()), begin}},
                          factor, lr);
            }
            whole_ = false; // some parts are a step ahead of others
            store_.give(k, true);
            weights_.send(k, b);
        }
        weights_.settle();
        whole_ = true;
    }
    template <class Rule>
    void step(Rule& rule, const cpu& host, const layout& map, const owned_gradients<T>& grads,
              double factor, double lr) {
        grads.visit([&](const auto& parts) { step(rule, host, map, parts, factor, lr); });
    }

    /// fill(begin, master): values of the elements from `begin` of the flat buffer on. The states
    /// of a run that begins: moments are 0. The weights are the caller's (weight_target::begin).
    template <class Fill>
    void begin(Fill fill) {
        each(true, [&](const block& b, const state_part<W>& s) {
            fill(weights_.mine()[b.piece].begin + b.begin,
                 std::span<W>(s.master.data(), s.master.size()));
            std::fill_n(s.m.data(), s.m.size(), W(0));
            std::fill_n(s.v.data(), s.v.size(), W(0));
        });
    }
    /// All states, for a checkpoint; and back. A store in files reads, or writes, each once.
    void copy_to(const packed_states<W>& all) {
        require_whole();
        each(false, [&](const block& b, const state_part<W>& s) {
            std::copy_n(s.master.data(), s.master.size(), part(all.master, b).begin());
            std::copy_n(s.m.data(), s.m.size(), part(all.m, b).begin());
            std::copy_n(s.v.data(), s.v.size(), part(all.v, b).begin());
        });
    }
    void copy_from(const packed_states<const W>& all) {
        each(true, [&](const block& b, const state_part<W>& s) {
            std::copy_n(part(all.master, b).begin(), s.master.size(), s.master.data());
            std::copy_n(part(all.m, b).begin(), s.m.size(), s.m.data());
            std::copy_n(part(all.v, b).begin(), s.v.size(), s.v.data());
        });
    }

private:
    // A part of a packed array; of one that is not kept: nothing, and not behind a nullptr.
    template <class E>
    static std::span<E> part(std::span<E> all, const block& b) {
        return all.empty() ? all : all.subspan(b.packed, b.size());
    }
    template <class F>
    void each(bool changes, F f) {
        if (changes) whole_ = false;
        for (std::size_t k = 0; k < store_.parts().size(); ++k) {
            f(store_.parts()[k], store_.take(k));
            store_.give(k, changes);
        }
        store_.settle();
        whole_ = true;
    }
    state_part<W> take(std::size_t k) {
        const range r(seen_, lane::compute, "wait", join("\"part\":", k));
        return store_.take(k);
    }
    void require_whole() const {
        check(whole_, "offload: a step ended in the middle, and its states with it; "
                      "resume from a checkpoint");
    }

    std::unique_ptr<device_weights<T>> here_; // the usual target
    weight_target<T>& weights_;
    state_store<T>& store_;
    mpt::trace* seen_;
    bool whole_ = true; // all parts have taken the same steps
};

} // namespace mpt
