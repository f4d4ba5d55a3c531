// SPDX-License-Identifier: MIT
// gpt_run.hpp -- what surrounds the step of a chapter's GPT: text cut into windows, the model, its
// buffers, all entered in one ledger.
#pragma once
#include "machine.hpp" // machine: what computes; alone: the strategy

#include "mpt/base/memory.hpp"          // memory, buffer
#include "mpt/nn/gpt.hpp"               // gpt: forward, backward
#include "mpt/nn/loops.hpp"             // loops: the operations
#include "mpt/numeric/scalar.hpp"       // widen
#include "mpt/train/adamw.hpp"          // adamw_state
#include "mpt/train/data.hpp"           // load_tokens, draw_batch, validation_batch
#include "mpt/train/master_weights.hpp" // master_of, cast

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// The micro-batches of one step, on this rank.
struct window {
    std::vector<mpt::batch> micro_batches;
    std::vector<long> valid; // targets of each that are not ignored
    long tokens = 0;         // ... of all of them; on one rank these are all tokens
    auto begin() const { return micro_batches.begin(); }
    auto end() const { return micro_batches.end(); }
};

/// A text as windows of up to M micro-batches of (B,T) tokens.
class windows {
public:
    /// path: "" is the corpus that comes with mpt. rank, ranks: whose windows.
    template <class Ops>
    windows(const Ops& ops, mpt::memory& mem, const std::string& path, int M, int B, int T,
            int rank = 0, int ranks = 1)
        : text(mpt::load_tokens(path.empty() ? MPT_CORPUS : path)),
          send_([&ops](mpt::device_span<int> to, std::span<const int> from) {
              ops.copy_to_device(to, from);
          }),
          M_(M), B_(B), T_(T), rank_(rank), ranks_(ranks), n_(std::size_t(B) * std::size_t(T)),
          inputs_(mem, mpt::kind::data, n_ * std::size_t(M), "inputs"),
          targets_(mem, mpt::kind::data, n_ * std::size_t(M), "targets") {
        mpt::check(text.vocabulary == 256, "data ", text.name, ": has tokens of a vocabulary of ",
                   text.vocabulary, ", wanted text; give a text file");
        mpt::require_context(text, T);
    }

    const mpt::token_data text;

    /// The window of attempted step `step`.
    window operator()(long step) {
        return make(step, M_, [](long, std::span<int>) {});
    }
    /// One of `count` micro-batches, after edit(row, targets) for each row of the window.
    template <class Edit>
    window make(long step, int count, Edit edit) {
        return fill(step, count, [&](long row, std::span<int> in, std::span<int> out) {
            mpt::draw_batch(text, 1, step, row, B_, T_, in, out);
            for (int b = 0; b < B_; ++b)
                edit(row + b, out.subspan(std::size_t(b) * std::size_t(T_), std::size_t(T_)));
        });
    }
    /// Held-out text, the same every time.
    window held_out() {
        return fill(0, M_, [&](long row, std::span<int> in, std::span<int> out) {
            mpt::validation_batch(text, M_ * ranks_ * B_, int(row), B_, T_, in, out);
        });
    }

private:
    //! [rows]
    // The row of the joined batch that this rank's micro-batch begins with.
    long first_row(int micro) const { return (long(micro) * ranks_ + rank_) * B_; }
    //! [rows]

    template <class Draw>
    window fill(long step, int count, Draw draw) {
        window w;
        for (int micro = 0; micro < count; ++micro) {
            const long row = first_row(micro);
            std::vector<int> in(n_), out(n_); // on the host
            draw(row, std::span(in), std::span(out));
            const auto inputs = inputs_.span().subspan(n_ * std::size_t(micro), n_);
            const auto targets = targets_.span().subspan(n_ * std::size_t(micro), n_);
            send_(inputs, in);
            send_(targets, out);
            w.micro_batches.push_back({inputs, targets, B_, T_, micro, step, row});
            w.valid.push_back(std::count_if(out.begin(), out.end(), [](int t) { return t >= 0; }));
            w.tokens += w.valid.back();
        }
        return w;
    }
    std::function<void(mpt::device_span<int>, std::span<const int>)> send_; // to the device
    int M_, B_, T_, rank_, ranks_;
    std::size_t n_;                     // tokens of a micro-batch
    mpt::buffer<int> inputs_, targets_; // (M,B,T)
};

/// What an optimizer keeps beside the weights.
struct keeps {
    int moments = 2;    // numbers a parameter
    bool master = true; // of 16-bit weights; without one they are rounded stochastically
};

/// A GPT in T and everything its step reads and writes.
template <class T, class Ops = mpt::loops>
struct gpt_run : machine<Ops> {
    using machine<Ops>::mem;

    /// how: which blocks keep their activations; {}: all.
    gpt_run(const mpt::gpt_config& c, int B, int M, int threads, mpt::checkpointing how = {},
            keeps k = {})
        : machine<Ops>(threads), ops(this->template for_gpt<T>(c, B)), model(c, ops),
          strategy(ops, model.map), P(model.map.size()), acts(mem, c, B, c.context, std::move(how)),
          weights_(mem, mpt::kind::weights, P, "weights"),
          grads_(mem, mpt::kind::grads, P, "gradients"),
          sums_(mem, mpt::kind::sums, M > 1 ? P : 0, "fp32 sums of gradients"),
          master_(mem, mpt::kind::master, k.master ? mpt::master_size<T>(P) : 0,
                  "fp32 master weights"),
          m_(mem, mpt::kind::moments, k.moments > 0 ? P : 0, "first moments"),
          v_(mem, mpt::kind::moments, k.moments > 1 ? P : 0, "second moments"),
          weights(weights_.span()), grads{grads_.span(), sums_.span()},
          owned{{}, m_.span(), v_.span(), strategy.mine(weights), {}} {
        if (k.master)
            owned.master = mpt::master_of(master_.span(), owned.weights);
        else
            owned.rounding_seed = 1;
        start();
    }

    /// The first weights again, moments 0.
    void start(std::uint64_t seed = 1) {
        for (std::size_t i = 0; i < owned.weights.size(); ++i) {
            const auto& p = owned.weights[i];
            std::vector<float> first(p.data.size());
            std::vector<T> low(p.data.size());
            mpt::initial_values(model.map, seed, p.begin, first);
            mpt::cast(first.data(), low.data(), low.size());
            ops.copy_to_device(p.data, low);
            if constexpr (!mpt::own_master<T>)
                if (!owned.master.empty()) ops.copy_to_device(owned.master[i].data, first);
        }
        ops.fill(owned.m, 0.0f);
        ops.fill(owned.v, 0.0f);
    }

    /// The elements of a device's span, on the host.
    template <class E>
    std::vector<std::remove_const_t<E>> on_host(mpt::device_span<E> from) const {
        std::vector<std::remove_const_t<E>> to(from.size());
        ops.copy_to_host(to, from);
        return to;
    }

    /// Mean loss of a window.
    double loss(const window& w) {
        double sum = 0;
        for (const mpt::batch& b : w) sum += model.forward(strategy, weights, b, acts);
        return sum / double(w.tokens);
    }

    /// The gradient of a window, each micro-batch seeded with seed(it): in fp32, on the host.
    template <class Seed>
    std::vector<float> gradient(mpt::strategy<T>& s, const window& w, Seed seed) {
        for (const mpt::batch& b : w) {
            model.forward(s, weights, b, acts);
            model.backward(s, weights, b, acts, seed(b), grads);
        }
        std::vector<float> all;
        s.finish(grads).visit([&](const auto& parts) {
            for (const auto& p : parts) {
                std::vector<std::remove_cvref_t<decltype(*p.data.data())>> part(p.data.size());
                ops.copy_to_host(part, p.data);
                for (const auto x : part) all.push_back(float(mpt::widen(x)));
            }
        });
        return all;
    }

    Ops ops;
    mpt::gpt<T, Ops> model;
    alone<T, Ops> strategy;
    std::size_t P; // parameters
    mpt::gpt_acts<T> acts;

private:
    mpt::buffer<T> weights_, grads_;
    mpt::buffer<float> sums_, master_, m_, v_;

public:
    mpt::device_span<T> weights;
    mpt::gradients<T> grads;
    mpt::adamw_state<T> owned; // what the optimizer updates
};
