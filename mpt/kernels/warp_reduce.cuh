// SPDX-License-Identifier: MIT
/// @file warp_reduce.cuh
/// Sum and maximum over the 32 threads of a warp.                          tier 3, needs:
/// kernels/launch.cuh
///
/// Idea     Threads of a warp read each other's registers: in each of 5 rounds a thread takes the
///          value of the one whose number differs in one bit. No shared memory, no barrier.
/// Formula  x_i += x_(i xor 16), then 8, 4, 2, 1: all 32 threads end with the same sum, and, since
///          a + b = b + a, with the same bits
/// Costs    5 shuffles and 5 additions; an error of at most 5 roundings
/// Breaks   a thread that has left, or is in another branch: all 32 must come (the mask says so)
/// See      block_reduce.cuh (a block), tests/kernels/reduce_test.cpp
#pragma once
#include "mpt/kernels/launch.cuh" // __shfl_xor_sync

namespace mpt::kernels {

constexpr unsigned whole_warp = 0xFFFFFFFF; // the mask of all 32 threads

// Every version leaves the result in all 32 threads.
template <class T, class F>
__device__ inline T warp_fold(T x, F join) {
    for (int other = 16; other > 0; other /= 2)
        x = join(x, __shfl_xor_sync(whole_warp, x, other));
    return x;
}
template <class T>
__device__ inline T warp_sum(T x) {
    return warp_fold(x, [](T a, T b) { return a + b; });
}
/// NaN is passed over: what follows a maximum meets it again.
template <class T>
__device__ inline T warp_max(T x) {
    return warp_fold(x, [](T a, T b) { return b > a ? b : a; });
}

} // namespace mpt::kernels
