// SPDX-License-Identifier: MIT
/// @file grad_accum.hpp
/// The gradient of a large batch, a micro-batch at a time.                 tier 5, needs:
/// base/error.hpp nn/cpu.hpp numeric/cast.hpp numeric/scalar.hpp
///
/// Idea     A window of micro-batches is one batch: their gradients are added in fp32, and the mean
///          is over all target tokens of the window, which are counted before the first backward.
/// Formula  sum = fp32(g of micro-batch 0) + fp32(g of 1) + ...,  each from seed = S / tokens
/// Costs    4 bytes a parameter; 8 + sizeof(T) bytes of traffic a parameter and micro-batch
/// Breaks   adding in 16 bits: 4096 ones give 256 in bf16, 2048 in fp16. Averaging the means of
///          micro-batches: losses 10 over 10 tokens and 6 over 2 make 16/12, not (1 + 3)/2
/// See      loss_scale.hpp (seed), nn/strategy.hpp (gradients), tests/train/grad_accum_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // check
#include "mpt/nn/cpu.hpp"         // cpu
#include "mpt/numeric/cast.hpp"   // cast
#include "mpt/numeric/scalar.hpp" // wide_t, widen

#include <algorithm>
#include <cstddef>

namespace mpt {

/// sum[i] = g[i] where `first`, else sum[i] + g[i]; sum and grads (n). `first` spares the filling
/// with zeros: a sum still poisoned from its allocation is right after it.
template <class T>
void accumulate(const cpu& on, device_span<float> sum, device_view<T> grads, bool first) {
    check(sum.size() == grads.size(), "accumulate: a sum of ", sum.size(), " elements and ",
          grads.size(), " gradients; give the same part of both");
    constexpr std::size_t chunk = 1024; // stays in the nearest cache
    on.pool.for_ranges(sum.size(), 16 * chunk, [&](std::size_t begin, std::size_t end, int) {
        if (first) return cast(grads.data() + begin, sum.data() + begin, end - begin);
        wide_t<T> room[chunk];
        for (std::size_t i = begin; i < end; i += chunk) {
            const std::size_t n = std::min(chunk, end - i);
            const wide_t<T>* MPT_RESTRICT g = widen(grads.data() + i, n, room);
            float* MPT_RESTRICT s = sum.data() + i;
            for (std::size_t j = 0; j < n; ++j) s[j] = float(wide_t<T>(s[j]) + g[j]);
        }
    });
}

} // namespace mpt
