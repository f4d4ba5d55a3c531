// SPDX-License-Identifier: MIT
/// @file dropout.hpp
/// Zero a random part of the elements; the same part again in backward.    tier 4, needs:
/// base/philox.hpp nn/cpu.hpp nn/shapes.hpp numeric/cast.hpp
///
/// Idea     Whether an element is kept follows from its address, so no mask is stored: backward and
///          a recomputed forward draw it again. The address has the sample's number in the joined
///          batch and no rank: N ranks draw what one rank would.
/// Formula  y = keep ? x / (1 - p) : 0,  keep = uniform01(word e mod 4 of philox(counter)) >= p
///          counter = (e / 4, sample, step, layer), key = the two halves of the seed
/// Costs    10 rounds of Philox for 4 elements, vectorised; no memory
/// Breaks   two places that share `layer` drop the same elements
/// Source   Srivastava et al. 2014, Dropout; Salmon et al. 2011 (Philox)
/// See      philox.hpp, tests/nn/dropout_test.cpp
#pragma once
#include "mpt/base/philox.hpp"  // uniform01
#include "mpt/nn/cpu.hpp"       // cpu: pool
#include "mpt/nn/shapes.hpp"    // dropout_key, dropout_shape
#include "mpt/numeric/cast.hpp" // widen, narrow, wide_t, MPT_RESTRICT

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mpt {

inline constexpr std::size_t dropout_block = 1024; // elements drawn at a time

// The words of philox() for counters first, first + 1, ... : `count` of them, at most
// dropout_block / 4, 4 words each. Round by round over arrays, which a compiler can vectorise.
inline void philox_words(std::uint32_t* MPT_RESTRICT words, std::uint32_t first, std::size_t count,
                         std::uint32_t sample, std::uint32_t step, std::uint32_t layer,
                         std::uint64_t seed) {
    constexpr std::size_t most = dropout_block / 4;
    std::uint32_t c0[most], c1[most], c2[most], c3[most];
    for (std::size_t i = 0; i < count; ++i) {
        c0[i] = first + std::uint32_t(i);
        c1[i] = sample;
        c2[i] = step;
        c3[i] = layer;
    }
    std::uint32_t key0 = std::uint32_t(seed), key1 = std::uint32_t(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t p0 = std::uint64_t(0xD2511F53) * c0[i];
            const std::uint64_t p1 = std::uint64_t(0xCD9E8D57) * c2[i];
            c0[i] = std::uint32_t(p1 >> 32) ^ c1[i] ^ key0;
            c2[i] = std::uint32_t(p0 >> 32) ^ c3[i] ^ key1;
            c1[i] = std::uint32_t(p1);
            c3[i] = std::uint32_t(p0);
        }
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    for (std::size_t i = 0; i < count; ++i) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

/// Elements [first, first + n) of one sample, in place: dropped or scaled by 1/(1-p). `sample`
/// counts from key.sample on.
template <class W>
void drop(W* x, std::size_t first, std::size_t n, float p, dropout_key key, int sample) {
    std::uint32_t words[dropout_block];
    const W scale = W(1) / (W(1) - W(p));
    while (n > 0) {
        const std::size_t skip = first % 4; // a run may begin inside a counter's four words
        const std::size_t run = std::min(n, dropout_block - skip);
        philox_words(words, std::uint32_t(first / 4), (skip + run + 3) / 4,
                     std::uint32_t(key.sample + sample), std::uint32_t(key.step),
                     std::uint32_t(key.layer), key.seed);
        const std::uint32_t* MPT_RESTRICT word = words + skip;
        for (std::size_t i = 0; i < run; ++i)
            x[i] = uniform01(word[i]) >= p ? x[i] * scale : W(0);
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
