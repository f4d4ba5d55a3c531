// SPDX-License-Identifier: MIT
/// @file dropout.hpp
/// Zero a random part of the elements; the same part again in backward.    tier 4, needs:
/// base/philox.hpp nn/cpu.hpp nn/fast_math.hpp nn/shapes.hpp numeric/cast.hpp
///
/// Idea     Whether an element is kept follows from its address, so no mask is stored: backward and
///          a recomputed forward draw it again. The address has the sample's number in the joined
///          batch and no rank: N ranks draw what one rank would.
/// Formula  y = keep ? x / (1 - p) : 0,  keep = uniform01(word e mod 4 of philox(counter)) >= p
///          counter = (e / 4, sample, step, layer), key = the two halves of the seed
/// Costs    10 rounds of Philox for 4 elements; no memory
/// Breaks   two places that share `layer` drop the same elements
/// Source   Srivastava et al. 2014, Dropout; Salmon et al. 2011 (Philox)
/// See      philox.hpp, tests/nn/dropout_test.cpp
#pragma once
#include "mpt/base/philox.hpp"  // philox
#include "mpt/nn/cpu.hpp"       // cpu: pool
#include "mpt/nn/fast_math.hpp" // select
#include "mpt/nn/shapes.hpp"    // dropout_key, dropout_shape
#include "mpt/numeric/cast.hpp" // cast, widen, narrow, wide_t

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace mpt {

inline constexpr std::size_t dropout_block = 1024; // elements drawn at a time

/// Elements [first, first + n) of one sample, in place: dropped or scaled by 1/(1-p). `sample`
/// counts from key.sample on.
template <class W>
void drop(W* x, std::size_t first, std::size_t n, float p, dropout_key key, int sample) {
    std::uint32_t words[dropout_block];
    const W scale = W(1) / (W(1) - W(p));
    // uniform01(word) >= p, in integers: uniform01 is (word >> 8) / 2^24
    const std::int32_t least = std::int32_t(std::ceil(p * 0x1p24f));
    while (n > 0) {
        const std::size_t skip = first % 4; // a run may begin inside a counter's four words
        const std::size_t run = std::min(n, dropout_block - skip);
        for (std::size_t i = 0; i < skip + run; i += 4) {
            const philox4 four = philox(
                {{std::uint32_t((first + i) / 4), std::uint32_t(key.sample + sample),
                  std::uint32_t(key.step), std::uint32_t(key.layer)}},
                std::uint32_t(key.seed), std::uint32_t(key.seed >> 32));
            for (std::size_t k = 0; k < 4; ++k) words[i + k] = four.x[k];
        }
        const std::uint32_t* word = words + skip;
        for (std::size_t i = 0; i < run; ++i)
            x[i] = select(std::int32_t(word[i] >> 8) >= least, x[i] * scale, W(0));
        x += run;
        first += run;
        n -= run;
    }
}

inline void check_dropout(std::size_t y, std::size_t x, float p, dropout_shape s) {
    const std::size_t n = std::size_t(s.samples) * s.per_sample;
    check(p >= 0 && p < 1, "dropout: p = ", p, "; wanted is 0 or more and less than 1");
    check(y == n && x == n, "dropout: arrays of ", y, " and ", x, " elements for ", s.samples,
          " samples of ", s.per_sample, "; they must agree");
}

// f(sample, first element in the sample, first in the array, count) over blocks of all samples.
template <class F>
void for_dropout_blocks(const cpu& on, dropout_shape s, F f) {
    constexpr std::size_t grain = 16 * dropout_block;
    const std::size_t tasks = (s.per_sample + grain - 1) / grain; // a sample
    on.pool.for_each(tasks * std::size_t(s.samples), [&](std::size_t task, int) {
        const std::size_t sample = task / tasks, begin = task % tasks * grain;
        const std::size_t end = std::min(s.per_sample, begin + grain);
        for (std::size_t e = begin; e < end; e += dropout_block)
            f(int(sample), e, sample * s.per_sample + e, std::min(dropout_block, end - e));
    });
}

/// y = dropout(x). y may be x; p = 0 copies.
template <class T>
void dropout_forward(const cpu& on, device_span<T> y, device_view<T> x, float p, dropout_key key,
                     dropout_shape s) {
    check_dropout(y.size(), x.size(), p, s);
    for_dropout_blocks(on, s, [&](int sample, std::size_t first, std::size_t at, std::size_t n) {
        if (p == 0) return cast(x.data() + at, y.data() + at, n);
        wide_t<T> room[dropout_block];
        cast(x.data() + at, room, n);
        drop(room, first, n, p, key, sample);
        narrow(room, y.data() + at, n);
    });
}

/// dx = dy through the mask of forward. dx may be dy.
template <class T>
void dropout_backward(const cpu& on, device_span<T> dx, device_view<T> dy, float p,
                      dropout_key key, dropout_shape s) {
    dropout_forward<T>(on, dx, dy, p, key, s);
}

/// out = x + dropout(branch), rounded once. out may be x or branch. Backward: dx = dout, and
/// dropout_backward for the branch.
template <class T>
void residual_forward(const cpu& on, device_span<T> out, device_view<T> x, device_view<T> branch,
                      float p, dropout_key key, dropout_shape s) {
    check_dropout(out.size(), x.size(), p, s);
    check_dropout(out.size(), branch.size(), p, s);
    for_dropout_blocks(on, s, [&](int sample, std::size_t first, std::size_t at, std::size_t n) {
        wide_t<T> sum[dropout_block], room[dropout_block];
        cast(branch.data() + at, sum, n);
        if (p > 0) drop(sum, first, n, p, key, sample);
        const wide_t<T>* straight = widen(x.data() + at, n, room);
        for (std::size_t i = 0; i < n; ++i) sum[i] += straight[i];
        narrow(sum, out.data() + at, n);
    });
}

} // namespace mpt
