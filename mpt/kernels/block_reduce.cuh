// SPDX-License-Identifier: MIT
/// @file block_reduce.cuh
/// Sum and maximum over the threads of a block.                            tier 3, needs:
/// kernels/launch.cuh kernels/warp_reduce.cuh
///
/// Idea     Each warp reduces by shuffles and leaves one number in shared memory; after a barrier
///          every warp reads all of these and reduces them once more, so that each thread has the
///          result without a second trip.
/// Formula  version 1: a tree in shared memory, log2(threads) barriers
///          version 2: shuffles, then one number a warp: 2 barriers whatever the block's size
/// Costs    10 shuffles, 2 barriers, 32 numbers of shared memory; an error of at most 10 roundings
/// Breaks   the second barrier left out: a fast warp writes the next sum's numbers while a slow one
///          still reads these
/// See      warp_reduce.cuh, reduce.cuh (a whole array), tests/kernels/reduce_test.cpp
#pragma once
#include "mpt/kernels/launch.cuh"      // threadIdx, __syncthreads
#include "mpt/kernels/warp_reduce.cuh" // warp_fold

namespace mpt::kernels {

/// The fold of x over all threads, in all of them. All threads of the block call it, whole warps of
/// a block of one dimension. `none` changes nothing when joined.
template <class T, class F>
__device__ inline T block_fold(T x, T none, F join) {
    __shared__ T of_warp[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_fold(x, join);
    if (lane == 0) of_warp[warp] = x;
    __syncthreads();
    x = warp_fold(lane < warps ? of_warp[lane] : none, join);
    __syncthreads(); // of_warp may be written again
    return x;
}
template <class T>
__device__ inline T block_sum(T x) {
    return block_fold(x, T(0), [](T a, T b) { return a + b; });
}
/// Of at least `least`. NaN is passed over.
template <class T>
__device__ inline T block_max(T x, T least) {
    return block_fold(x, least, [](T a, T b) { return b > a ? b : a; });
}

/// Version 1, to compare: half of the threads add the other half's numbers, then a quarter, ...
/// Threads: a power of two. shared: a number a thread.
template <class T>
__device__ inline T block_sum_tree(T x, T* shared) {
    shared[threadIdx.x] = x;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads(); // all threads, also those that have nothing to add
    }
    const T sum = shared[0];
    __syncthreads();
    return sum;
}

} // namespace mpt::kernels
