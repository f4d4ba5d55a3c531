// SPDX-License-Identifier: MIT
/// @file adamw.hpp
/// Adam with decoupled weight decay, in one pass over memory.              tier 5, needs:
/// base/error.hpp nn/cpu.hpp nn/params.hpp nn/strategy.hpp numeric/cast.hpp numeric/scalar.hpp
/// train/blocks.hpp
///
/// Idea     Each weight moves by about lr, whatever the size of its gradient: m remembers its mean,
///          v its mean square. Decay pulls the weight towards 0 apart from both.
/// Formula  g' = factor g;  m += (1-b1)(g' - m);  v += (1-b2)(g'^2 - v);  t = applied steps, from 1
///          p -= lr decay p + lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps);  weights = round(p)
/// Costs    traffic: 28 bytes a parameter = 3 * 8 (p, m, v) + 4 (fp32 g, or 16-bit g and weights).
///          memory: 8 bytes a parameter = m and v
/// Breaks   eps = 1e-8 in fp16 is 0, and 0/0 a NaN: all is fp32 here.  v = b2 v + (1-b2) g^2 with
///          b2 in fp32: 1 - fp32(.999) is off by 1.3e-5, the form above by 3e-8.
///          |g'| > 1.8e19: its square is infinite
/// Source   Loshchilov and Hutter 2019, arXiv:1711.05101; the defaults are PyTorch's
/// See      loss_scale.hpp (whether to step at all), clip.hpp (factor), tests/train/adamw_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // check
#include "mpt/nn/cpu.hpp"         // cpu
#include "mpt/nn/params.hpp"      // pieces, layout
#include "mpt/nn/strategy.hpp"    // owned_gradients
#include "mpt/numeric/cast.hpp"   // widen, narrow
#include "mpt/numeric/scalar.hpp" // wide_t
#include "mpt/train/blocks.hpp"   // blocks

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mpt {

/// What a step reads and writes: four lists of the same elements, those this rank owns, in order.
template <class T>
struct adamw_state {
    pieces<wide_t<T>> master; // p, updated; see master_of(): of fp32 weights the weights themselves
    device_span<wide_t<T>> m; // first moments, packed (blocks.hpp); zero before the first step
    device_span<wide_t<T>> v; // second moments, likewise
    pieces<T> weights;        // receive p rounded to T in the same pass; may be the master itself
};

namespace adamw_parts {

/// to[i] = sqrt(x[i]), rounded once like any IEEE root. A plain loop is not vectorised: the
/// compiler must think of errno.
template <class W>
void roots(const W* x, W* to, std::size_t n) {
    std::size_t i = 0;
    if constexpr (std::is_same_v<W, float>) {
#if defined(__AVX__)
        for (; n - i >= 8; i += 8) _mm256_storeu_ps(to + i, _mm256_sqrt_ps(_mm256_loadu_ps(x + i)));
#elif defined(__SSE2__)
        for (; n - i >= 4; i += 4) _mm_storeu_ps(to + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
#endif
    }
    for (; i < n; ++i) to[i] = std::sqrt(x[i]);
}

/// Ask for what comes 2 KB behind x[0..n): five streams are more than the hardware guesses well.
template <int write, class E>
void prefetch(const E* x, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 64 / sizeof(E))
        __builtin_prefetch(reinterpret_cast<const char*>(x + i) + 2048, write);
}

/// The numbers of one step, each rounded once from double.
template <class W>
struct numbers {
    W factor;     // unscales and clips the gradients
    W keep1;      // 1 - beta1: the share of the new gradient in m
    W keep2;      // 1 - beta2
    W rate;       // lr / (1 - beta1^t)
    W correction; // 1 / sqrt(1 - beta2^t)
    W eps;
};

/// n weights, all with the same decay; root (n) is scratch.
template <class W>
void update(W* MPT_RESTRICT p, W* MPT_RESTRICT m, W* MPT_RESTRICT v, const W* MPT_RESTRICT g,
            W* MPT_RESTRICT root, std::size_t n, const numbers<W>& with, W decay) {
    const numbers<W> c = with;
    for (std::size_t i = 0; i < n; ++i) {
        const W gi = c.factor * g[i];
        m[i] += c.keep1 * (gi - m[i]);
        v[i] += c.keep2 * (gi * gi - v[i]);
    }
    roots(v, root, n);
    for (std::size_t i = 0; i < n; ++i)
        p[i] -= decay * p[i] + c.rate * (m[i] / (root[i] * c.correction + c.eps));
}

/// f(from, to, decays) for the parts of [begin, end) of the flat buffer that lie in one tensor.
template <class F>
void by_tensor(const layout& map, std::size_t begin, std::size_t end, F f) {
    auto t = std::upper_bound(map.tensors.begin(), map.tensors.end(), begin,
                              [](std::size_t i, const tensor_info& x) { return i < x.begin; });
    --t; // the last that begins at `begin` or before
    for (std::size_t from = begin; from < end; ++t) {
        const std::size_t to = std::min(end, t->begin + t->size);
        if (from < to) f(from, to, t->decays);
        from = std::max(from, to);
    }
}

} // namespace adamw_parts

struct adamw {
    double beta1 = 0.9;         // how much m keeps of itself
    double beta2 = 0.999;       // how much v keeps of itself
    double eps = 1e-8;          // keeps a weight without gradient from moving by 0/0
    double weight_decay = 0.01; // for the tensors that decay
    long applied = 0;           // t: steps taken; skipped ones do not count

    /// One step. `grads`: pieces of T or, summed over a window, of float, still scaled; `factor`
    /// unscales and clips them: clip_factor(norm / S, max_norm) / S. Throws, with nothing changed,
    /// where sizes disagree or a number is not finite. The same bits for any number of threads.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const adamw_state<T>& own, const pieces<G>& grads,
              double factor, double lr) {
        using W = wide_t<T>;
        validate(map, own, grads, factor, lr);
        ++applied;
        const double t = double(applied);
        const adamw_parts::numbers<W> c{
            W(factor), W(1 - beta1), W(1 - beta2), W(lr / (1 - std::pow(beta1, t))),
            W(1 / std::sqrt(1 - std::pow(beta2, t))), W(eps)};
        const W decay = W(lr * weight_decay);

        const std::vector<block> cut = blocks(own.master);
        on.pool.for_each(cut.size(), [&](std::size_t task, int) {
            constexpr std::size_t chunk = 128; // from widening to rounding in the nearest cache
            W wide[chunk], root[chunk];
            const block& b = cut[task];
            const std::size_t start = own.master[b.piece].begin; // of the piece, in the flat one
            W* const p = own.master[b.piece].data.data();
            W* const m = own.m.data() + b.packed - b.begin; // indexed as the piece is
            W* const v = own.v.data() + b.packed - b.begin;
            T* const weights = own.weights[b.piece].data.data();
            const G* const g = grads[b.piece].data.data();
            adamw_parts::by_tensor(
                map, start + b.begin, start + b.end,
                [&](std::size_t from, std::size_t to, bool decays) {
                    for (std::size_t i = from - start; i < to - start; i += chunk) {
                        const std::size_t n = std::min(chunk, to - start - i);
                        adamw_parts::prefetch<1>(p + i, n);
                        adamw_parts::prefetch<1>(m + i, n);
                        adamw_parts::prefetch<1>(v + i, n);
                        adamw_parts::prefetch<0>(g + i, n);
                        if (!std::is_same_v<T, W>) adamw_parts::prefetch<1>(weights + i, n);
                        const W* const gradient = in_wide(g + i, n, wide);
                        adamw_parts::update(p + i, m + i, v + i, gradient, root, n, c,
                                            decays ? decay : W(0));
                        narrow(p + i, weights + i, n);
                    }
                });
        });
    }

    template <class T>
    void step(const cpu& on, const layout& map, const adamw_state<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        grads.visit([&](const auto& parts) { step(on, map, own, parts, factor, lr); });
    }

private:
    // n gradients as W; where they are that already, where they lie.
    template <class G, class W>
    static const W* in_wide(const G* g, std::size_t n, W* room) {
        if constexpr (std::is_same_v<G, W>) {
            return g;
        } else {
            cast(g, room, n);
            return room;
        }
    }

    template <class T, class G>
    void validate(const layout& map, const adamw_state<T>& own, const pieces<G>& grads,
                  double factor, double lr) const {
        check_same_pieces("adamw: master and gradients", own.master, grads);
        check_same_pieces("adamw: master and weights", own.master, own.weights);
        const std::size_t n = size_of(own.master);
        check(own.m.size() == n && own.v.size() == n, "adamw: ", n, " weights, ", own.m.size(),
              " first and ", own.v.size(), " second moments; allocate one of each a weight owned");
        for (const auto& p : own.master)
            check(p.begin + p.data.size() <= map.size(), "adamw: a piece up to element ",
                  p.begin + p.data.size(), " of ", map.size(), "; take pieces of this layout");
        check(std::isfinite(factor) && std::isfinite(lr) && lr >= 0, "adamw: factor ", factor,
              ", learning rate ", lr, "; both must be finite, the rate not negative");
        check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1 && eps >= 0 && weight_decay >= 0,
              "adamw: beta1 ", beta1, ", beta2 ", beta2, ", eps ", eps, ", weight decay ",
              weight_decay, "; betas lie in [0, 1), the others are not negative");
    }
};

} // namespace mpt
