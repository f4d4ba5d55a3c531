// SPDX-License-Identifier: MIT
/// @file rank_order_sum.cuh
/// The sum of what ranks have sent, in one order and rounded once.          tier 3, needs:
/// kernels/elementwise.cuh kernels/scalar.cuh
///
/// Idea     Rank 0's number first, then rank 1's, ..., in fp32, rounded once: then ranks on GPUs
///          have the bits of ranks that are threads. This rank's own numbers lie somewhere else
///          than those that have come, and have their turn among them.
/// Formula  out_i = round(((x0_i + x1_i) + x2_i) + ...)
/// Costs    bytes an element: the ranks' reads and a write; nothing beside that
/// Breaks   atomics, or own numbers first: the order is then another on every rank
/// See      comm/rank_order_sum.hpp (the loop), comm/nccl.hpp (who sums so),
///          tests/kernels/rank_order_sum_test.cpp
#pragma once
#include "mpt/kernels/elementwise.cuh" // for_my_elements, over_elements
#include "mpt/kernels/scalar.cuh"      // pack, load, store, fit, to_float, from_float

namespace mpt::kernels {

__device__ inline float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double plus(double a, double b) { return __dadd_rn(a, b); }

template <class T, int width>
__global__ void rank_order_sum_kernel(const T* own, int rank, const T* others, size_t stride,
                                      int ranks, T* out, size_t n) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        constexpr int count = part.count;
        using wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
        pack<wide, count> sum{};
        for (int r = 0; r < ranks; ++r) {
            const pack<T, count> p = load<count>((r == rank ? own : others + r * stride) + i);
            for (int k = 0; k < count; ++k) {
                wide x;
                if constexpr (std::is_same_v<T, double>)
                    x = p.x[k];
                else
                    x = to_float(p.x[k]);
                sum.x[k] = r == 0 ? x : plus(sum.x[k], x);
            }
        }
        pack<T, count> y;
        for (int k = 0; k < count; ++k) {
            if constexpr (std::is_same_v<T, double>)
                y.x[k] = sum.x[k];
            else
                y.x[k] = from_float<T>(sum.x[k]);
        }
        store(out + i, y);
    });
}

/// out (n) = the sum of own (n) of rank `rank` and others (ranks, stride), row r of rank r; row
/// `rank` is not read. `out` may be `own`. T: float, double, __half, __nv_bfloat16.
template <class T>
void rank_order_sum(const T* own, int rank, const T* others, size_t stride, int ranks, T* out,
                    size_t n, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(T));
    if (n == 0) return;
    if (fit<w>(own) && fit<w>(others) && fit<w>(out) && stride % w == 0)
        launch<rank_order_sum_kernel<T, w>>(over_elements(n, w, stream), own, rank, others, stride,
                                            ranks, out, n);
    else
        launch<rank_order_sum_kernel<T, 1>>(over_elements(n, 1, stream), own, rank, others, stride,
                                            ranks, out, n);
}

} // namespace mpt::kernels
