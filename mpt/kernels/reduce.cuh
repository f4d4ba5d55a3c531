// SPDX-License-Identifier: MIT
/// @file reduce.cuh
/// The sum of an array: the same bits every time.                          tier 3, needs:
/// kernels/block_reduce.cuh kernels/elementwise.cuh kernels/scalar.cuh
///
/// Idea     Blocks cannot wait for each other, so each leaves one partial sum, and a second kernel
///          of one block adds those. Adding them by atomics saves the second launch, but in the
///          order in which blocks happen to finish: other bits in every run.
/// Formula  block b sums elements b, b + blocks, ... (in packs of 4); blocks by n alone, not by the
///          GPU: the same order on every device
/// Costs    4 bytes an element; 8 bytes of scratch a block, at most 1024 blocks
/// Breaks   fp32 sums: 2^24 ones are as far as they count. fp64 here; it waits for memory anyway
/// See      inspect.cuh (another such pair of kernels), tests/kernels/reduce_test.cpp
#pragma once
#include "mpt/kernels/block_reduce.cuh" // block_sum
#include "mpt/kernels/elementwise.cuh"  // for_my_elements, element_threads
#include "mpt/kernels/scalar.cuh"       // pack, load, fit, pack_width

namespace mpt::kernels {

/// Blocks of the first kernel, each with so much to do that its start does not count.
inline unsigned partial_blocks(size_t n) {
    const size_t blocks = (n + 4095) / 4096;
    return unsigned(blocks < 1 ? 1 : blocks < 1024 ? blocks : 1024);
}

template <int width>
__global__ void sum_kernel(double* partial, const float* x, size_t n) {
    double sum = 0;
    for_my_elements<width>(n, [&](size_t i, auto part) {
        constexpr int count = part.count;
        const pack<float, count> p = load<count>(x + i);
        for (int k = 0; k < count; ++k) sum += double(p.x[k]);
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class W>
__global__ void sum_partials_kernel(W* result, const W* partial, unsigned n) {
    W sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *result = sum;
}

/// Bytes of scratch that sum wants.
inline size_t sum_bytes(size_t n) { return partial_blocks(n) * sizeof(double); }

/// *result = the sum of x[0..n), 0 of none. result and scratch lie on the device.
inline void sum(double* result, const float* x, size_t n, void* scratch, cudaStream_t stream) {
    const unsigned blocks = partial_blocks(n);
    double* const partial = blocks == 1 ? result : static_cast<double*>(scratch);
    if (fit<4>(x))
        launch<sum_kernel<4>>({blocks, element_threads, 0, stream}, partial, x, n);
    else
        launch<sum_kernel<1>>({blocks, element_threads, 0, stream}, partial, x, n);
    if (blocks > 1)
        launch<sum_partials_kernel<double>>({1, element_threads, 0, stream}, result,
                                    static_cast<const double*>(partial), blocks);
}

} // namespace mpt::kernels
