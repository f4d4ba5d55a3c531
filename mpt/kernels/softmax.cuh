// SPDX-License-Identifier: MIT
/// @file softmax.cuh
/// Rows of numbers to rows of shares that add up to 1; and backward.       tier 3, needs:
/// kernels/block_reduce.cuh kernels/scalar.cuh kernels/warp_reduce.cuh
///
/// Idea     e^x overflows from 89 on, so the row's maximum is taken off first. Maximum and sum can
///          be had in one read: when a larger maximum appears, the sum so far is rescaled; and two
///          such pairs can be joined, so threads may share a row.
/// Formula  y = e^(x - m) / s,  m = max x,  s = sum e^(x - m);   dx = y (dy - sum(dy y))
///          join: m = max(m1, m2),  s = s1 e^(m1 - m) + s2 e^(m2 - m)
/// Costs    bytes an element: 1 read and 1 write of memory, if a row stays in the cache between
///          the reads: 3 for version 1, 2 from version 2 on
/// Breaks   -inf - (-inf) is NaN: a row of nothing but -inf (all masked) is zeros here
/// Source   Milakov, Gimelshein 2018, Online normalizer calculation for softmax, arXiv:1805.02867
/// See      cross_entropy.cuh (the same pairs), tests/kernels/softmax_test.cpp
#pragma once
#include "mpt/kernels/block_reduce.cuh" // block_fold, block_sum
#include "mpt/kernels/scalar.cuh"       // pack, for_my_part_of_row, to_float, infinity
#include "mpt/kernels/warp_reduce.cuh"  // warp_fold, warp_sum

namespace mpt::kernels {

/// Of the elements seen so far: the largest, and the sum of e^(x - largest).
struct running_sum {
    float most = -infinity, sum = 0;

    // e^(x - to), where to may be -inf: then there is nothing, and e^(-inf - 0) = 0 says so
    __device__ static float power(float x, float to) {
        return expf(x - (to == -infinity ? 0.0f : to));
    }

    __device__ void add(float x) {
        if (x > most) { // rare, once the maximum is near
            sum = sum * power(most, x) + 1;
            most = x;
        } else {
            sum += power(x, most); // NaN too: it is no larger than anything
        }
    }
    __device__ void join(float other_most, float other_sum) {
        const float top = other_most > most ? other_most : most;
        sum = sum * power(most, top) + other_sum * power(other_most, top);
        most = top;
    }
    /// This thread's joined with those of its warp; all 32 have it then.
    __device__ void join_warp() {
        for (int other = 16; other > 0; other /= 2) {
            const float m = __shfl_xor_sync(whole_warp, most, other);
            const float s = __shfl_xor_sync(whole_warp, sum, other);
            join(m, s);
        }
    }
    /// Of a block: first the maximum of all, so that each sum is rescaled once.
    __device__ void join_block() {
        const float top = block_max(most, -infinity);
        sum = block_sum(sum * power(most, top));
        most = top;
    }
    /// 1 / sum, or 0 for a row without a finite element above -inf.
    __device__ float share() const { return sum == 0 ? 0.0f : 1.0f / sum; }
};

/// Version 1: a thread a row, three passes. Neighbours are a row apart: each load of a warp touches
/// 32 sectors and uses 4 bytes of each.
template <class T>
__global__ void softmax_naive_kernel(T* y, const T* x, int rows, int columns) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= rows) return;
    const size_t n = size_t(columns), start = size_t(row) * n;
    float most = -infinity, sum = 0;
    for (size_t i = 0; i < n; ++i) {
        const float v = to_float(x[start + i]);
        most = v > most ? v : most;
    }
    for (size_t i = 0; i < n; ++i) sum += running_sum::power(to_float(x[start + i]), most);
    const float share = running_sum{most, sum}.share();
    for (size_t i = 0; i < n; ++i)
        y[start + i] = from_float<T>(running_sum::power(to_float(x[start + i]), most) * share);
}

/// Version 2: maximum and sum in one pass. A third of the reads is gone, the sectors are as bad.
template <class T>
__global__ void softmax_online_kernel(T* y, const T* x, int rows, int columns) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= rows) return;
    const size_t n = size_t(columns), start = size_t(row) * n;
    running_sum s;
    for (size_t i = 0; i < n; ++i) s.add(to_float(x[start + i]));
    const float share = s.share();
    for (size_t i = 0; i < n; ++i)
        y[start + i] = from_float<T>(running_sum::power(to_float(x[start + i]), s.most) * share);
}

/// Version 3: a warp a row. Its 32 loads lie side by side, in packs; pairs are joined by shuffles.
/// Version 4, whole_block: a block a row, for rows so wide that few make enough work for a GPU.
template <class T, bool whole_block>
__global__ void softmax_kernel(T* y, const T* x, int rows, int columns) {
    const unsigned threads = whole_block ? blockDim.x : 32, thread = threadIdx.x % threads;
    const size_t n = size_t(columns), at_once = blockDim.x / threads;
    for (size_t row = size_t(blockIdx.x) * at_once + threadIdx.x / threads; row < size_t(rows);
         row += size_t(gridDim.x) * at_once) {
        const T* const from = x + row * n;
        T* const to = y + row * n;
        running_sum s;
        const auto see = [&](size_t i, auto part) {
            const pack<T, part.count> p = load<part.count>(from + i);
            for (int k = 0; k < part.count; ++k) s.add(to_float(p.x[k]));
        };
        for_my_part_of_row(n, thread, threads, see, from);
        if (whole_block)
            s.join_block();
        else
            s.join_warp();
        const float share = s.share();
        const auto write = [&](size_t i, auto part) {
            pack<T, part.count> p = load<part.count>(from + i);
            for (int k = 0; k < part.count; ++k)
                p.x[k] = from_float<T>(running_sum::power(to_float(p.x[k]), s.most) * share);
            store(to + i, p);
        };
        for_my_part_of_row(n, thread, threads, write, from, to);
    }
}

template <class T, bool whole_block>
__global__ void softmax_backward_kernel(T* dx, const T* dy, const T* y, int rows, int columns) {
    const unsigned threads = whole_block ? blockDim.x : 32, thread = threadIdx.x % threads;
    const size_t n = size_t(columns), at_once = blockDim.x / threads;
    for (size_t row = size_t(blockIdx.x) * at_once + threadIdx.x / threads; row < size_t(rows);
         row += size_t(gridDim.x) * at_once) {
        const T *const out = y + row * n, *const gradient = dy + row * n;
        T* const to = dx + row * n;
        float dot = 0;
        const auto add = [&](size_t i, auto part) {
            const pack<T, part.count> p = load<part.count>(out + i);
            const pack<T, part.count> d = load<part.count>(gradient + i);
            for (int k = 0; k < part.count; ++k) dot += to_float(p.x[k]) * to_float(d.x[k]);
        };
        for_my_part_of_row(n, thread, threads, add, out, gradient);
        dot = whole_block ? block_sum(dot) : warp_sum(dot);
        const auto write = [&](size_t i, auto part) {
            const pack<T, part.count> p = load<part.count>(out + i);
            pack<T, part.count> d = load<part.count>(gradient + i);
            for (int k = 0; k < part.count; ++k)
                d.x[k] = from_float<T>(to_float(p.x[k]) * (to_float(d.x[k]) - dot));
            store(to + i, d);
        };
        for_my_part_of_row(n, thread, threads, write, out, gradient, to);
    }
}

// ---- launchers ---------------------------------------------------------------------------------

constexpr int row_of_a_warp = 1024; // columns up to which a warp takes a row

/// Versions 1 and 2, to compare.
template <class T>
void softmax_naive(T* y, const T* x, int rows, int columns, cudaStream_t stream) {
    if (rows == 0 || columns == 0) return;
    launch<softmax_naive_kernel<T>>({blocks_for(size_t(rows), 128), 128, 0, stream}, y, x, rows,
                                    columns);
}
template <class T>
void softmax_online(T* y, const T* x, int rows, int columns, cudaStream_t stream) {
    if (rows == 0 || columns == 0) return;
    launch<softmax_online_kernel<T>>({blocks_for(size_t(rows), 128), 128, 0, stream}, y, x, rows,
                                     columns);
}

/// A warp a row up to 1024 columns, a block a row above: the launch for either.
template <class T>
launch_config over_rows(int rows, int columns, cudaStream_t stream) {
    if (columns <= row_of_a_warp) return {blocks_for(size_t(rows), 4), 128, 0, stream};
    return {blocks_for(size_t(rows), 1),
            threads_for(size_t(columns), pack_width(sizeof(T)), 512), 0, stream};
}

/// y (rows,columns) = softmax of each row of x. y may be x.
template <class T>
void softmax_forward(T* y, const T* x, int rows, int columns, cudaStream_t stream) {
    const launch_config how = over_rows<T>(rows, columns, stream);
    if (rows == 0 || columns == 0) return;
    if (columns <= row_of_a_warp)
        launch<softmax_kernel<T, false>>(how, y, x, rows, columns);
    else
        launch<softmax_kernel<T, true>>(how, y, x, rows, columns);
}

/// dx (rows,columns) from dy and y. dx may be dy or y.
template <class T>
void softmax_backward(T* dx, const T* dy, const T* y, int rows, int columns, cudaStream_t stream) {
    const launch_config how = over_rows<T>(rows, columns, stream);
    if (rows == 0 || columns == 0) return;
    if (columns <= row_of_a_warp)
        launch<softmax_backward_kernel<T, false>>(how, dx, dy, y, rows, columns);
    else
        launch<softmax_backward_kernel<T, true>>(how, dx, dy, y, rows, columns);
}

} // namespace mpt::kernels
