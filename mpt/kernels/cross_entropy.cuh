// SPDX-License-Identifier: MIT
/// @file cross_entropy.cuh
/// The loss of a language model and its gradient, softmax inside, on the device. tier 3, needs:
/// kernels/scalar.cuh kernels/softmax.cuh
///
/// Idea     A block takes a row of logits and keeps maximum and sum in one read; nobody stores
///          probabilities. Fused: the same block then reads its row again, of which a part is still
///          in the cache, and writes the gradient where the logits lie: one kernel, no third array.
/// Formula  lse = m + ln sum e^(x_j - m),  loss = lse - x_target
///          dx_j = seed (e^(x_j - lse) - [j = target]);  a target below 0: loss 0, gradient 0
/// Costs    bytes an element: forward 1 read; backward 1 read, 1 write; fused 2 reads, 1 write, the
///          second read partly from the cache. (rows,V) logits are the largest array of a step
/// Breaks   a seed by value in a graph that is captured once: device_seed is read by the kernel. A
///          target of V or more cannot throw here: its loss and gradients are NaN
/// Source   Milakov, Gimelshein 2018, arXiv:1805.02867; karpathy/llm.c (the fused classifier)
/// See      nn/cross_entropy.hpp, softmax.cuh, reduce.cuh (the sum of losses),
///          tests/kernels/cross_entropy_test.cpp
#pragma once
#include "mpt/kernels/scalar.cuh"  // pack, for_my_part_of_row, to_float, from_float
#include "mpt/kernels/softmax.cuh" // running_sum

namespace mpt::kernels {

template <class T>
struct cross_entropy_forward_args {
    float* losses;      // (rows)
    float* lse;         // (rows), for backward; may be null
    const T* logits;    // (rows,V)
    const int* targets; // (rows)
    int rows, V;
};

template <class T>
struct cross_entropy_backward_args {
    T* dlogits;         // (rows,V); may be logits
    const T* logits;    // (rows,V)
    const float* lse;   // (rows)
    const int* targets; // (rows)
    float seed;         // what backward starts from: S / tokens of the window
    const float* device_seed; // not null: taken instead, from the device
    int rows, V;
};

template <class T>
struct cross_entropy_args {
    float* losses;      // (rows)
    float* lse;         // (rows); may be null
    T* logits;          // (rows,V): in, logits; out, their gradients
    const int* targets; // (rows)
    float seed;
    const float* device_seed;
    int rows, V;
};

/// ln of the sum of e^x over a row of n, by a whole block; all threads have it.
template <class T>
__device__ inline float log_of_sum(const T* x, size_t n) {
    running_sum s;
    const auto see = [&](size_t i, auto part) {
        const pack<T, part.count> p = load<part.count>(x + i);
        for (int k = 0; k < part.count; ++k) s.add(to_float(p.x[k]));
    };
    for_my_part_of_row(n, threadIdx.x, blockDim.x, see, x);
    s.join_block();
    return s.most + logf(s.sum);
}

template <class T>
__device__ inline float loss_of(const T* x, float lse, int target, int V) {
    if (target < 0) return 0;
    return target < V ? lse - to_float(x[target]) : __uint_as_float(0x7FC00000u); // NaN
}

/// dx of a row, by a whole block. dx may be x.
template <class T>
__device__ inline void write_gradient(T* dx, const T* x, float lse, int target, float seed, int V) {
    if (target >= V) lse = __uint_as_float(0x7FC00000u); // all NaN
    const auto write = [&](size_t i, auto part) {
        pack<T, part.count> p = load<part.count>(x + i);
        for (int k = 0; k < part.count; ++k) {
            const float share = expf(to_float(p.x[k]) - lse);
            const float hit = i + size_t(k) == size_t(target) ? 1.0f : 0.0f;
            // an ignored row is 0 also where a logit is not finite
            p.x[k] = from_float<T>(target < 0 ? 0.0f : (share - hit) * seed);
        }
        store(dx + i, p);
    };
    for_my_part_of_row(size_t(V), threadIdx.x, blockDim.x, write, x, static_cast<const T*>(dx));
}

template <class T>
__global__ void cross_entropy_forward_kernel(cross_entropy_forward_args<T> a) {
    for (size_t row = blockIdx.x; row < size_t(a.rows); row += gridDim.x) {
        const T* const x = a.logits + row * size_t(a.V);
        const float lse = log_of_sum(x, size_t(a.V));
        if (threadIdx.x > 0) continue;
        a.losses[row] = loss_of(x, lse, a.targets[row], a.V);
        if (a.lse) a.lse[row] = lse;
    }
}

template <class T>
__global__ void cross_entropy_backward_kernel(cross_entropy_backward_args<T> a) {
    const float seed = a.device_seed ? *a.device_seed : a.seed;
    for (size_t row = blockIdx.x; row < size_t(a.rows); row += gridDim.x) {
        const size_t start = row * size_t(a.V);
        write_gradient(a.dlogits + start, a.logits + start, a.lse[row], a.targets[row], seed, a.V);
    }
}

template <class T>
__global__ void cross_entropy_kernel(cross_entropy_args<T> a) {
    const float seed = a.device_seed ? *a.device_seed : a.seed;
    for (size_t row = blockIdx.x; row < size_t(a.rows); row += gridDim.x) {
        T* const x = a.logits + row * size_t(a.V);
        const int target = a.targets[row];
        const float lse = log_of_sum(static_cast<const T*>(x), size_t(a.V));
        if (threadIdx.x == 0) {
            a.losses[row] = loss_of(static_cast<const T*>(x), lse, target, a.V);
            if (a.lse) a.lse[row] = lse;
        }
        __syncthreads(); // the target's logit is read before its gradient is written over it
        write_gradient(x, static_cast<const T*>(x), lse, target, seed, a.V);
    }
}

// ---- launchers ---------------------------------------------------------------------------------

template <class T>
launch_config block_a_row(int rows, int V, cudaStream_t stream) {
    return {blocks_for(size_t(rows), 1), threads_for(size_t(V), pack_width(sizeof(T)), 1024), 0,
            stream};
}

/// losses and lse of logits and targets.
template <class T>
void cross_entropy_forward(const cross_entropy_forward_args<T>& a, cudaStream_t stream) {
    if (a.rows == 0) return;
    launch<cross_entropy_forward_kernel<T>>(block_a_row<T>(a.rows, a.V, stream), a);
}

/// dlogits = seed times the gradient of the sum of the losses.
template <class T>
void cross_entropy_backward(const cross_entropy_backward_args<T>& a, cudaStream_t stream) {
    if (a.rows == 0) return;
    launch<cross_entropy_backward_kernel<T>>(block_a_row<T>(a.rows, a.V, stream), a);
}

/// Both at once, the gradient in the place of the logits.
template <class T>
void cross_entropy(const cross_entropy_args<T>& a, cudaStream_t stream) {
    if (a.rows == 0) return;
    launch<cross_entropy_kernel<T>>(block_a_row<T>(a.rows, a.V, stream), a);
}

} // namespace mpt::kernels
