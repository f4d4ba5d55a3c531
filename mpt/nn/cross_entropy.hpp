// SPDX-License-Identifier: MIT
/// @file cross_entropy.hpp
/// The loss of a language model, and its gradient, with softmax inside.    tier 4, needs:
/// nn/batch.hpp nn/cpu.hpp nn/fast_math.hpp nn/row_math.hpp numeric/cast.hpp
///
/// Idea     The logits are read once: maximum and sum are kept for the part seen so far, the sum
///          is rescaled when the maximum moves. Only lse is kept for backward, which writes the
///          gradient where the logits lie: probabilities are never stored.
/// Formula  lse = m + ln sum e^(x_j - m),  loss = lse - x_target
///          dx_j = seed (e^(x_j - lse) - [j = target]);  an ignored target: loss 0, gradient 0
/// Costs    forward: 1 read an element; backward: 1 read, 1 write; 8 bytes a row
/// Breaks   a mean taken here: the seed is 1 / tokens of the whole window (train/data.hpp)
/// Source   Milakov, Gimelshein 2018, Online normalizer calculation for softmax, arXiv:1805.02867
/// See      batch.hpp (ignored_target), tests/nn/cross_entropy_test.cpp
#pragma once
#include "mpt/nn/batch.hpp"     // ignored_target; device_span
#include "mpt/nn/cpu.hpp"       // cpu: pool
#include "mpt/nn/fast_math.hpp" // fast_exp
#include "mpt/nn/row_math.hpp"  // row_max, row_sum
#include "mpt/numeric/cast.hpp" // cast, widen, narrow, wide_t

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace mpt {

inline constexpr std::size_t logit_block = 1024; // elements of a row at a time: 4 KiB

/// ln of the sum of e^x over a row of n > 0.
template <class T>
wide_t<T> log_sum_exp(const T* x, std::size_t n) {
    using W = wide_t<T>;
    W room[logit_block];
    W most = -std::numeric_limits<W>::infinity(), sum = 0;
    for (std::size_t i = 0; i < n; i += logit_block) {
        const std::size_t count = std::min(logit_block, n - i);
        const W* part = widen(x + i, count, room);
        const W top = row_max(part, count);
        if (top > most) {
            sum *= fast_exp(most - top); // of the first block: 0
            most = top;
        }
        // nothing but -inf so far: -inf - (-inf) would be NaN
        const W from = most == -std::numeric_limits<W>::infinity() ? W(0) : most;
        sum += row_sum<W>(count, [part, from](std::size_t j) { return fast_exp(part[j] - from); });
    }
    return most + std::log(sum);
}

template <class T>
void check_cross_entropy(device_view<wide_t<T>> losses, device_view<wide_t<T>> lse,
                         device_view<T> logits, device_span<const int> targets, int rows, int V) {
    const std::size_t R = std::size_t(rows), n = std::size_t(V);
    check(losses.size() == R && lse.size() == R && logits.size() == R * n && targets.size() == R,
          "cross_entropy: losses, lse, logits, targets have ", losses.size(), ", ", lse.size(),
          ", ", logits.size(), ", ", targets.size(), " elements; ", rows, " rows of ", V, " want ",
          R, ", ", R, ", ", R * n, ", ", R);
}
template <class T>
void check_cross_entropy_backward(device_view<T> dlogits, device_view<T> logits,
                                  device_view<wide_t<T>> lse, device_span<const int> targets,
                                  int rows, int V) {
    const std::size_t R = std::size_t(rows), n = std::size_t(V);
    check(dlogits.size() == R * n && logits.size() == R * n && lse.size() == R &&
              targets.size() == R,
          "cross_entropy: dlogits, logits, lse, targets have ", dlogits.size(), ", ",
          logits.size(), ", ", lse.size(), ", ", targets.size(), " elements; ", rows, " rows of ",
          V, " want ", R * n, ", ", R * n, ", ", R, ", ", R);
}
inline void check_target(int target, std::size_t row, int V) {
    check(target < V, "cross_entropy: target ", target, " in row ", row,
          "; wanted is 0 to ", V - 1, ", or ", ignored_target, " for none");
}

/// losses (rows), lse (rows) of logits (rows,V) and targets (rows); any negative target is ignored.
template <class T>
void cross_entropy_forward(const cpu& on, device_span<wide_t<T>> losses, device_span<wide_t<T>> lse,
                           device_view<T> logits, device_span<const int> targets, int rows, int V) {
    using W = wide_t<T>;
    const std::size_t R = std::size_t(rows), n = std::size_t(V);
    check_cross_entropy<T>(losses, lse, logits, targets, rows, V);
    on.pool.for_ranges(R, std::max<std::size_t>(1, 16384 / std::max<std::size_t>(n, 1)),
                       [&](std::size_t begin, std::size_t end, int) {
        for (std::size_t r = begin; r < end; ++r) {
            const T* row = logits.data() + r * n;
            const int target = targets.data()[r];
            check_target(target, r, V);
            const W l = log_sum_exp(row, n);
            lse.data()[r] = l;
            losses.data()[r] = target < 0 ? W(0) : l - widen(row[target]);
        }
    });
}

template <class W>
inline void softmax_block(W* x, W lse, W seed, std::size_t n) { // in place
    for (std::size_t i = 0; i < n; ++i) x[i] = fast_exp(x[i] - lse) * seed;
}

// The part of a row at `from`, wide, where its gradient is to be computed: in the gradient's own
// place if that is wide, else in `room`.
template <class T>
wide_t<T>* opened(T* place, const T* from, wide_t<T>* room, std::size_t n) {
    if constexpr (std::is_same_v<T, wide_t<T>>) {
        if (place != from) std::copy_n(from, n, place);
        return place;
    } else {
        cast(from, room, n);
        return room;
    }
}

/// dlogits (rows,V) = seed times the gradient of the sum of the losses. dlogits may be logits.
template <class T>
void cross_entropy_backward(const cpu& on, device_span<T> dlogits, device_view<T> logits,
                            device_view<wide_t<T>> lse, device_span<const int> targets,
                            wide_t<T> seed, int rows, int V) {
    using W = wide_t<T>;
    const std::size_t R = std::size_t(rows), n = std::size_t(V);
    check_cross_entropy_backward<T>(dlogits, logits, lse, targets, rows, V);
    on.pool.for_ranges(R, std::max<std::size_t>(1, 16384 / std::max<std::size_t>(n, 1)),
                       [&](std::size_t begin, std::size_t end, int) {
        W room[logit_block];
        for (std::size_t r = begin; r < end; ++r) {
            const int target = targets.data()[r];
            check_target(target, r, V);
            for (std::size_t i = 0; i < n; i += logit_block) {
                const std::size_t count = std::min(logit_block, n - i);
                T* const place = dlogits.data() + r * n + i;
                W* const x = opened(place, logits.data() + r * n + i, room, count);
                if (target < 0) { // also where a logit is not finite
                    std::fill_n(x, count, W(0));
                } else {
                    const W l = lse.data()[r];
                    const std::size_t hit = std::size_t(target) - i;
                    const W at_target = hit < count ? fast_exp(x[hit] - l) - W(1) : W(0);
                    softmax_block(x, l, seed, count);
                    if (hit < count) x[hit] = at_target * seed;
                }
                narrow(x, place, count);
            }
        }
    });
}

} // namespace mpt
