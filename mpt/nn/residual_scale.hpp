// SPDX-License-Identifier: MIT
/// @file residual_scale.hpp
/// A learnable factor for what a branch adds to the residual stream.       tier 4, needs:
/// nn/cpu.hpp nn/dropout.hpp nn/row_math.hpp nn/shapes.hpp numeric/cast.hpp
///
/// Idea     One number a branch, alpha, learnt like any weight. From 0 on a model of any depth
///          begins as the identity, and each branch comes in as fast as it is of use.
/// Formula  out = x + alpha dropout(branch);  dx = dout,  dbranch = alpha dropout'(dout),
///          dalpha = sum over all elements of dout dropout(branch)
/// Costs    memory: the branch is kept for dalpha, C values a token; alpha itself is 1 parameter
/// Breaks   alpha = 0 and a branch of zeros: both gradients are 0 for ever. In 16 bits dalpha, a
///          sum over the batch, is the first gradient that overflows
/// Source   Bachlechner et al. 2020, ReZero is All You Need, arXiv:2003.04887, equation 1
/// See      dropout.hpp (residual_forward), gpt.hpp, tests/nn/residual_scale_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"       // cpu: pool
#include "mpt/nn/dropout.hpp"   // drop, dropout_block, check_dropout, for_dropout_blocks
#include "mpt/nn/row_math.hpp"  // row_sum
#include "mpt/nn/shapes.hpp"    // dropout_key, dropout_shape
#include "mpt/numeric/cast.hpp" // cast, widen, narrow, wide_t

#include <algorithm>
#include <cstddef>

namespace mpt {

inline void check_residual_scale(std::size_t alpha) {
    check(alpha == 1, "residual scale: ", alpha, " numbers; wanted is 1 for a branch");
}

/// out = x + alpha dropout(branch), rounded once. out may be x. alpha: 1 element.
template <class T>
void scaled_residual_forward(const cpu& on, device_span<T> out, device_view<T> x,
                             device_view<T> branch, device_view<T> alpha, float p, dropout_key key,
                             dropout_shape s) {
    check_dropout(out.size(), x.size(), p, s);
    check_dropout(out.size(), branch.size(), p, s);
    check_residual_scale(alpha.size());
    const wide_t<T> a = widen(alpha.data()[0]);
    for_dropout_blocks(on, s, [&](int sample, std::size_t first, std::size_t at, std::size_t n) {
        wide_t<T> sum[dropout_block], room[dropout_block];
        cast(branch.data() + at, sum, n);
        if (p > 0) drop(sum, first, n, p, key, sample);
        const wide_t<T>* straight = widen(x.data() + at, n, room);
        for (std::size_t i = 0; i < n; ++i) sum[i] = straight[i] + a * sum[i];
        narrow(sum, out.data() + at, n);
    });
}

/// The gradients of branch and alpha; that of x is dout. dalpha is summed in wide_t<T> a block of
/// 1024, the blocks in fp64 in 64 parts: the same bits on any number of threads.
template <class T>
void scaled_residual_backward(const cpu& on, device_span<T> dbranch, device_span<T> dalpha,
                              device_view<T> dout, device_view<T> branch, device_view<T> alpha,
                              float p, dropout_key key, dropout_shape s) {
    check_dropout(dbranch.size(), dout.size(), p, s);
    check_dropout(dbranch.size(), branch.size(), p, s);
    check_residual_scale(alpha.size());
    check_residual_scale(dalpha.size());
    const wide_t<T> a = widen(alpha.data()[0]);
    constexpr std::size_t parts = 64;
    double part[parts] = {};
    const std::size_t of_sample = (s.per_sample + dropout_block - 1) / dropout_block; // blocks
    const std::size_t blocks = of_sample * std::size_t(s.samples);
    const std::size_t size = (blocks + parts - 1) / parts; // blocks of a part
    on.pool.for_ranges(blocks, size, [&](std::size_t begin, std::size_t end, int) {
        wide_t<T> d[dropout_block], y[dropout_block];
        for (std::size_t block = begin; block < end; ++block) {
            const int sample = int(block / of_sample);
            const std::size_t first = block % of_sample * dropout_block;
            const std::size_t at = std::size_t(sample) * s.per_sample + first;
            const std::size_t n = std::min(dropout_block, s.per_sample - first);
            cast(dout.data() + at, d, n);
            cast(branch.data() + at, y, n);
            if (p > 0) drop(d, first, n, p, key, sample); // the mask on either: the same product
            const wide_t<T>*l = d, *r = y;
            part[begin / size] +=
                double(row_sum<wide_t<T>>(n, [l, r](std::size_t i) { return l[i] * r[i]; }));
            for (std::size_t i = 0; i < n; ++i) d[i] *= a;
            narrow(d, dbranch.data() + at, n);
        }
    });
    double sum = 0;
    for (const double term : part) sum += term;
    dalpha.data()[0] = narrow<T>(wide_t<T>(sum));
}

} // namespace mpt
