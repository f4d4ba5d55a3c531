// SPDX-License-Identifier: MIT
/// @file residual_scale.cuh
/// A learnable factor for each branch, on the device, and its gradient.    tier 3, needs:
/// kernels/block_reduce.cuh kernels/dropout.cuh kernels/reduce.cuh kernels/scalar.cuh
///
/// Idea     A thread takes the four elements of one counter, as dropout.cuh does. alpha's gradient
///          is one sum over the whole branch: partial sums of blocks, then one block that adds them
///          in their order, as reduce.cuh does.
/// Formula  out = x + alpha d,  d = dropout(branch);   dbranch = alpha dropout(dout),
///          dalpha = sum of dropout(dout) branch
/// Costs    forward 2 reads and a write an element, backward the same; asked of the cache 4 times,
///          since a thread's four come one by one. scratch: 8 bytes a block, at most 1024 blocks
/// Breaks   alpha by value: it is a weight, and lives on the device
/// See      nn/residual_scale.hpp (the loop), tests/kernels/residual_scale_test.cpp
#pragma once
#include "mpt/kernels/block_reduce.cuh" // block_sum
#include "mpt/kernels/dropout.cuh"      // dropout_args, dropout_mask, mask_of
#include "mpt/kernels/reduce.cuh"       // partial_blocks
#include "mpt/kernels/scalar.cuh"       // to_float, from_float, blocks_for

namespace mpt::kernels {

template <class T>
struct scaled_residual_args {
    T* out = nullptr;          // (samples, per_sample), may be x or branch
    const T* x = nullptr;      // the straight path
    const T* branch = nullptr; // before its dropout
    const T* alpha = nullptr;  // 1
    dropout_args drop = {};
    int samples = 0;
    size_t per_sample = 0;
};
template <class T>
struct scaled_residual_backward_args {
    T* dbranch = nullptr;      // (samples, per_sample)
    T* dalpha = nullptr;       // 1
    const T* dout = nullptr;   // likewise
    const T* branch = nullptr; // as forward had it
    const T* alpha = nullptr;  // 1
    dropout_args drop = {};
    int samples = 0;
    size_t per_sample = 0;
    void* scratch = nullptr;   // scaled_residual_backward_bytes()
};

/// f(index of an element, its word) for the elements of this thread, `groups` of four a sample.
template <class F>
__device__ inline void for_dropped(const dropout_mask& mask, bool drops, int samples,
                                   size_t per_sample, F f) {
    const size_t groups = (per_sample + 3) / 4, all = groups * size_t(samples);
    const dropout_mask m = mask.placed();
    for (size_t g = size_t(blockIdx.x) * blockDim.x + threadIdx.x; g < all;
         g += size_t(gridDim.x) * blockDim.x) {
        const int row = int(g / groups);
        const size_t c = g % groups, first = 4 * c;
        random4 r{};
        if (drops) r = m.words(row, std::uint32_t(c));
        for (size_t k = 0; k < 4 && first + k < per_sample; ++k)
            f(size_t(row) * per_sample + first + k, r.x[k]);
    }
}

template <class T>
__global__ void scaled_residual_kernel(scaled_residual_args<T> a, dropout_mask mask, bool drops) {
    const float alpha = to_float(*a.alpha);
    for_dropped(mask, drops, a.samples, a.per_sample, [&](size_t i, std::uint32_t word) {
        float d = to_float(a.branch[i]);
        if (drops) d = mask.apply(d, word);
        a.out[i] = from_float<T>(__fadd_rn(to_float(a.x[i]), __fmul_rn(alpha, d)));
    });
}

template <class T>
__global__ void scaled_residual_backward_kernel(scaled_residual_backward_args<T> a,
                                                dropout_mask mask, bool drops) {
    const float alpha = to_float(*a.alpha);
    double sum = 0;
    for_dropped(mask, drops, a.samples, a.per_sample, [&](size_t i, std::uint32_t word) {
        float d = to_float(a.dout[i]);
        if (drops) d = mask.apply(d, word);
        sum += double(__fmul_rn(d, to_float(a.branch[i])));
        a.dbranch[i] = from_float<T>(__fmul_rn(alpha, d));
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0) static_cast<double*>(a.scratch)[blockIdx.x] = sum;
}

template <class T>
__global__ void scaled_residual_sum_kernel(T* dalpha, const double* partial, unsigned n) {
    double sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *dalpha = from_float<T>(float(sum));
}

// ---- launchers ---------------------------------------------------------------------------------

/// out = x + alpha dropout(branch), rounded once.
template <class T>
void scaled_residual_forward(const scaled_residual_args<T>& a, cudaStream_t stream) {
    const size_t groups = (a.per_sample + 3) / 4 * size_t(a.samples);
    if (groups == 0) return;
    launch<scaled_residual_kernel<T>>({blocks_for(groups, 256), 256, 0, stream}, a,
                                      mask_of(a.drop), a.drop.p > 0);
}

/// Bytes of scratch that the backward pass of n elements wants.
inline size_t scaled_residual_backward_bytes(size_t n) {
    return partial_blocks(n) * sizeof(double);
}

/// dbranch and dalpha, each rounded once. Of no elements dalpha is 0.
template <class T>
void scaled_residual_backward(const scaled_residual_backward_args<T>& a, cudaStream_t stream) {
    const unsigned blocks = partial_blocks(a.per_sample * size_t(a.samples));
    launch<scaled_residual_backward_kernel<T>>({blocks, 256, 0, stream}, a, mask_of(a.drop),
                                               a.drop.p > 0);
    launch<scaled_residual_sum_kernel<T>>({1, 256, 0, stream}, a.dalpha,
                                          static_cast<const double*>(a.scratch), blocks);
}

} // namespace mpt::kernels
