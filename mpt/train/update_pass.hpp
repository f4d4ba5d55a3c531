// SPDX-License-Identifier: MIT
/// @file update_pass.hpp
/// What every optimizer's step does: one pass over all that a rank owns.   tier 5, needs:
/// base/error.hpp base/qualifiers.hpp nn/cpu.hpp nn/params.hpp numeric/cast.hpp numeric/scalar.hpp
/// numeric/stochastic.hpp train/blocks.hpp
///
/// Idea     A step touches each weight once: its gradient is widened, the formula applied, the
///          result rounded, a chunk of 128 elements at a time, which stay in the nearest cache
///          from the first to the last. Optimizers differ in their formula and in the moments
///          they keep: those stand in adamw.hpp, adam.hpp, sgd.hpp, lamb.hpp, the rest here.
///          16-bit weights need no master where they are rounded stochastically: nearest would
///          undo most steps, this undoes none on average. Bits by (seed, t, element).
/// Costs    traffic: what the formula reads and writes, once.  memory, by kind: master 4 bytes a
///          16-bit parameter, or 0 with a rounding_seed; moments 4 each
/// Breaks   a pass a formula: AdamW in five passes takes twice the time (bench optimizer).
///          A rounding_seed for each rank: where ranks keep the same weights, give them the same
/// Source   Zamirai et al. 2021, Revisiting BFloat16 Training, arXiv:2010.06192 (no master)
/// See      blocks.hpp (the cut into tasks), adam_moments.hpp, tests/train/optimizers_test.cpp,
///          tests/train/stochastic_weights_test.cpp
#pragma once
#include "mpt/base/error.hpp"         // check
#include "mpt/base/qualifiers.hpp"    // MPT_RESTRICT
#include "mpt/nn/cpu.hpp"             // cpu
#include "mpt/nn/params.hpp"          // pieces, layout
#include "mpt/numeric/cast.hpp"       // cast, narrow
#include "mpt/numeric/scalar.hpp"     // wide_t, name
#include "mpt/numeric/stochastic.hpp" // cast_stochastic
#include "mpt/train/blocks.hpp"       // blocks, check_same_pieces

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

namespace mpt {

/// What a step reads and writes: lists of the same elements, those this rank owns, in order.
template <class T>
struct optimizer_state {
    pieces<wide_t<T>> master; // p, updated; see master_of(): of fp32 weights the weights themselves
    device_span<wide_t<T>> m; // first moments, packed (blocks.hpp); zero before the first step
    device_span<wide_t<T>> v; // second moments, likewise; empty where the optimizer keeps none
    pieces<T> weights;        // receive p rounded to T in the same pass; may be the master itself
    std::optional<std::uint64_t> rounding_seed = {}; // of 16-bit weights without a master
};

/// Elements of one tensor that are updated together.
template <class T>
struct chunk {
    using W = wide_t<T>;
    static constexpr std::size_t most = 128; // elements: a few KB in all
    W* p;                                    // weights in W; changed ones are kept by store()
    W *m, *v;                                // moments; null where the optimizer keeps none
    const W* g;                              // gradients, still scaled; null in a pass without
    T* weights;
    std::size_t n, first;     // elements, and which of the flat buffer is the first
    std::size_t packed;       // which of the rank's own it is, one piece behind the other
    std::size_t tensor, task; // which of the layout's, which block of the pass
    bool decays;
};

namespace update_parts {

/// Ask for what comes 2 KB behind x[0..n): five streams are more than the hardware guesses well.
template <int write, class E>
void prefetch(const E* x, std::size_t n) {
    for (std::size_t i = 0; x && i < n; i += 64 / sizeof(E))
        __builtin_prefetch(reinterpret_cast<const char*>(x + i) + 2048, write);
}

/// f(from, to, tensor) for the parts of [begin, end) of the flat buffer that lie in one tensor.
template <class F>
void by_tensor(const layout& map, std::size_t begin, std::size_t end, F f) {
    auto t = std::upper_bound(map.tensors.begin(), map.tensors.end(), begin,
                              [](std::size_t i, const tensor_info& x) { return i < x.begin; });
    --t; // the last that begins at `begin` or before
    for (std::size_t from = begin; from < end; ++t) {
        const std::size_t to = std::min(end, t->begin + t->size);
        if (from < to) f(from, to, std::size_t(t - map.tensors.begin()));
        from = std::max(from, to);
    }
}

/// n gradients as W; where they are that already, where they lie.
template <class G, class W>
const W* in_wide(const G* g, std::size_t n, W* room) {
    if constexpr (std::is_same_v<G, W>) {
        return g;
    } else {
        cast(g, room, n);
        return room;
    }
}

} // namespace update_parts

/// visit(chunk) for all elements of `own`, on all threads. `grads`: the same elements, or no pieces
/// at all. The cut depends on sizes alone, so the bits do not depend on the number of threads.
template <class T, class G, class Visit>
void for_chunks(const cpu& on, const layout& map, const optimizer_state<T>& own,
                const pieces<G>& grads, Visit visit) {
    using W = wide_t<T>;
    const std::vector<block> cut = blocks(own.weights);
    on.pool.for_each(cut.size(), [&](std::size_t task, int) {
        W wide[chunk<T>::most], copy[chunk<T>::most];
        const block& b = cut[task];
        const std::size_t start = own.weights[b.piece].begin; // of the piece, in the flat one
        T* const weights = own.weights[b.piece].data.data();
        W* const p = own.master.empty() ? nullptr : own.master[b.piece].data.data();
        W* const m = own.m.empty() ? nullptr : own.m.data() + b.packed - b.begin; // as the piece
        W* const v = own.v.empty() ? nullptr : own.v.data() + b.packed - b.begin;
        const G* const g = grads.empty() ? nullptr : grads[b.piece].data.data();
        update_parts::by_tensor(
            map, start + b.begin, start + b.end,
            [&](std::size_t from, std::size_t to, std::size_t tensor) {
                const bool decays = map.tensors[tensor].decays;
                for (std::size_t i = from - start; i < to - start; i += chunk<T>::most) {
                    const std::size_t n = std::min(chunk<T>::most, to - start - i);
                    if (p)
                        update_parts::prefetch<1>(p + i, n);
                    else
                        cast(weights + i, copy, n);
                    if (m) update_parts::prefetch<1>(m + i, n);
                    if (v) update_parts::prefetch<1>(v + i, n);
                    if (g) update_parts::prefetch<0>(g + i, n);
                    if (!std::is_same_v<T, W>) update_parts::prefetch<1>(weights + i, n);
                    visit(chunk<T>{p ? p + i : copy, m ? m + i : nullptr, v ? v + i : nullptr,
                                   g ? update_parts::in_wide(g + i, n, wide) : nullptr, weights + i,
                                   n, start + i, b.packed + i - b.begin, tensor, task, decays});
                }
            });
    });
}

/// to[i] = factor g + decay p: gradients with decay as a part of them (L2).
template <class W>
void with_decay(W* MPT_RESTRICT to, const W* MPT_RESTRICT g, const W* MPT_RESTRICT p, std::size_t n,
                W factor, W decay) {
    for (std::size_t i = 0; i < n; ++i) to[i] = factor * g[i] + decay * p[i];
}

/// A changed chunk, in the t-th step: its weights rounded to T, to nearest where a master keeps the
/// rest, else stochastically.
template <class T>
void store(const optimizer_state<T>& own, const chunk<T>& c, long t) {
    if constexpr (!std::is_same_v<T, wide_t<T>>)
        if (own.rounding_seed)
            return cast_stochastic(c.p, c.weights, c.n, *own.rounding_seed, std::uint32_t(t),
                                   c.first);
    narrow(c.p, c.weights, c.n);
}

/// Throws one line unless a step of optimizer `who`, which keeps `moments` numbers a weight, can be
/// taken.
template <class T, class G>
void check_step(const char* who, const layout& map, const optimizer_state<T>& own,
                const pieces<G>& grads, double factor, double lr, int moments) {
    if (own.rounding_seed) {
        check(!std::is_same_v<T, wide_t<T>>, who, ": weights of ", name<T>(),
              " with a rounding_seed; they are their own master, leave it out");
        check(own.master.empty(), who, ": a master and a rounding_seed; pass one of the two");
    } else {
        check(!own.master.empty() || own.weights.empty(), who, ": weights of ", name<T>(),
              " without a master; pass master_of(), or a rounding_seed to do without");
        check_same_pieces(join(who, ": master and weights").c_str(), own.master, own.weights);
    }
    check_same_pieces(join(who, ": weights and gradients").c_str(), own.weights, grads);
    const std::size_t n = size_of(own.weights), m = moments > 0 ? n : 0, v = moments > 1 ? n : 0;
    check(own.m.size() == m && own.v.size() == v, who, ": ", n, " weights, ", own.m.size(),
          " first and ", own.v.size(), " second moments; allocate ", m, " and ", v);
    for (const auto& p : own.weights)
        check(p.begin + p.data.size() <= map.size(), who, ": a piece up to element ",
              p.begin + p.data.size(), " of ", map.size(), "; take pieces of this layout");
    const double most = double(std::numeric_limits<wide_t<T>>::max()); // 1/S of a tiny S is beyond
    check(std::abs(factor) <= most && lr >= 0 && lr <= most, who, ": factor ", factor,
          ", learning rate ", lr, "; both must be finite in ", name<wide_t<T>>(),
          ", the rate not negative");
}

} // namespace mpt
