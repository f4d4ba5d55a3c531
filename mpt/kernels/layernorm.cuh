// SPDX-License-Identifier: MIT
/// @file layernorm.cuh
/// Rows brought to mean 0 and variance 1, and back, on the device.         tier 3, needs:
/// kernels/block_reduce.cuh kernels/scalar.cuh kernels/warp_reduce.cuh
///
/// Idea     A row is read once from memory and twice more from the cache: mean, then variance, then
///          the result. Backward: dx is a matter of rows, dgamma and dbeta sums over columns; one
///          kernel can do both, if each block keeps running sums of all columns for its rows.
///          Blocks leave theirs in scratch, a second kernel adds those up in order: no atomics.
/// Formula  y = (x - mean) rstd gamma + beta,  rstd = 1/sqrt(mean((x - mean)^2) + 1e-5)
///          n = (x - mean) rstd,  g = dy gamma:   dx = rstd (g - mean(g) - n mean(g n))
/// Costs    elements of memory: forward 1 read, 1 write; backward 2 reads, 1 write (+ 1 read to
///          accumulate) in version 2, 4 reads, 1 write in version 1. Asked of the cache: forward 3
///          reads of x, 1 of gamma and beta; backward 2 of x, dy and gamma (version 1: 3 of x, dy)
/// Breaks   squares in fp16: 300 squared is infinity there; E[x^2] - mean^2 cancels
/// Source   Ba, Kiros, Hinton 2016, arXiv:1607.06450; microsoft/onnxruntime#29034 (the squares)
/// See      nn/layernorm.hpp, tests/kernels/layernorm_test.cpp
#pragma once
#include "mpt/kernels/block_reduce.cuh" // block_sum
#include "mpt/kernels/scalar.cuh"       // pack, for_my_part_of_row, to_float, from_float
#include "mpt/kernels/warp_reduce.cuh"  // warp_sum

namespace mpt::kernels {

constexpr float layernorm_eps = 1e-5f;

template <class T>
struct layernorm_forward_args {
    T* y;           // (rows,C); may be x
    float* mean;    // (rows)
    float* rstd;    // (rows)
    const T* x;     // (rows,C)
    const T* gamma; // (C)
    const T* beta;  // (C)
    int rows, channels;
};

template <class T>
struct layernorm_backward_args {
    T* dx;          // (rows,C): the gradient of x, or += it; may be dy unless it accumulates
    T* dgamma;      // (C), overwritten
    T* dbeta;       // (C), overwritten
    const T* dy;    // (rows,C)
    const T* x;     // (rows,C)
    const T* gamma; // (C)
    const float* mean; // (rows)
    const float* rstd; // (rows)
    int rows, channels;
    bool accumulate; // dx += instead of =
    void* scratch;   // layernorm_backward_bytes(rows, channels)
};

// ---- forward -----------------------------------------------------------------------------------

/// A warp a row, or a block where `whole_block`.
template <class T, bool whole_block>
__global__ void layernorm_forward_kernel(layernorm_forward_args<T> a) {
    const unsigned threads = whole_block ? blockDim.x : 32, thread = threadIdx.x % threads;
    const size_t n = size_t(a.channels), at_once = blockDim.x / threads;
    const auto all = [](float x) { return whole_block ? block_sum(x) : warp_sum(x); };
    for (size_t row = size_t(blockIdx.x) * at_once + threadIdx.x / threads; row < size_t(a.rows);
         row += size_t(gridDim.x) * at_once) {
        const T* const x = a.x + row * n;
        T* const y = a.y + row * n;
        float sum = 0;
        const auto add = [&](size_t i, auto part) {
            const pack<T, part.count> p = load<part.count>(x + i);
            for (int k = 0; k < part.count; ++k) sum += to_float(p.x[k]);
        };
        for_my_part_of_row(n, thread, threads, add, x);
        const float mean = all(sum) / float(n);

        float squares = 0;
        const auto add_square = [&](size_t i, auto part) {
            const pack<T, part.count> p = load<part.count>(x + i);
            for (int k = 0; k < part.count; ++k) {
                const float d = to_float(p.x[k]) - mean;
                squares += d * d;
            }
        };
        for_my_part_of_row(n, thread, threads, add_square, x);
        const float rstd = 1.0f / sqrtf(all(squares) / float(n) + layernorm_eps);

        if (thread == 0) {
            a.mean[row] = mean;
            a.rstd[row] = rstd;
        }
        const auto write = [&](size_t i, auto part) {
            constexpr int count = part.count;
            pack<T, count> p = load<count>(x + i);
            const pack<T, count> g = load<count>(a.gamma + i), b = load<count>(a.beta + i);
            for (int k = 0; k < count; ++k)
                p.x[k] = from_float<T>((to_float(p.x[k]) - mean) * rstd * to_float(g.x[k]) +
                                       to_float(b.x[k]));
            store(y + i, p);
        };
        for_my_part_of_row(n, thread, threads, write, static_cast<const T*>(y), x, a.gamma,
                           a.beta);
    }
}

// ---- backward ----------------------------------------------------------------------------------

constexpr int backward_width = 4; // elements of a thread at a time

/// Rows are cut into at most 512 parts of 8 or more, by their number alone: the order of the sums
/// is the same on every GPU.
inline int rows_of_part(int rows) {
    const int even = (rows + 511) / 512;
    return even < 8 ? 8 : even;
}
inline int row_parts(int rows) { return (rows + rows_of_part(rows) - 1) / rows_of_part(rows); }

/// dx of one row, by a whole block. add(i, part, dy, n): the terms of dgamma and dbeta.
template <class T, bool packs, class F>
__device__ inline void gradient_row(const layernorm_backward_args<T>& a, size_t row, F add) {
    constexpr int width = packs ? backward_width : 1;
    const size_t n = size_t(a.channels), start = row * n, step = size_t(blockDim.x) * width;
    const float mean = a.mean[row], rstd = a.rstd[row];
    const T *const x = a.x + start, *const dy = a.dy + start;
    float first = 0, second = 0;
    for (size_t i = threadIdx.x * width; i < n; i += step) {
        const pack<T, width> p = load<width>(x + i), d = load<width>(dy + i),
                             g = load<width>(a.gamma + i);
        for (int k = 0; k < width; ++k) {
            const float along = to_float(d.x[k]) * to_float(g.x[k]);
            first += along;
            second += along * ((to_float(p.x[k]) - mean) * rstd);
        }
    }
    first = block_sum(first) / float(n);
    second = block_sum(second) / float(n);
    for (size_t i = threadIdx.x * width; i < n; i += step) {
        const pack<T, width> p = load<width>(x + i), d = load<width>(dy + i),
                             g = load<width>(a.gamma + i);
        pack<T, width> before{};
        if (a.accumulate) before = load<width>(a.dx + start + i);
        for (int k = 0; k < width; ++k) {
            const float along = to_float(d.x[k]), normal = (to_float(p.x[k]) - mean) * rstd;
            add(i + size_t(k), along, normal);
            const float g_k = rstd * (along * to_float(g.x[k]) - first - normal * second);
            before.x[k] = from_float<T>(a.accumulate ? to_float(before.x[k]) + g_k : g_k);
        }
        store(a.dx + start + i, before);
    }
}

/// Version 1: dx alone, a block a row; dgamma and dbeta by the next kernel, which reads all again.
template <class T, bool packs>
__global__ void layernorm_dx_kernel(layernorm_backward_args<T> a) {
    for (size_t row = blockIdx.x; row < size_t(a.rows); row += gridDim.x)
        gradient_row<T, packs>(a, row, [](size_t, float, float) {});
}
/// A thread a column, grid.y the parts of the rows: neighbours read neighbours. sums (parts,2,C)
template <class T>
__global__ void layernorm_columns_kernel(layernorm_backward_args<T> a, int part_rows) {
    const size_t n = size_t(a.channels), column = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= n) return;
    const size_t begin = size_t(blockIdx.y) * size_t(part_rows), end = begin + size_t(part_rows);
    float dgamma = 0, dbeta = 0;
    for (size_t row = begin; row < end && row < size_t(a.rows); ++row) {
        const float d = to_float(a.dy[row * n + column]);
        dgamma += d * ((to_float(a.x[row * n + column]) - a.mean[row]) * a.rstd[row]);
        dbeta += d;
    }
    float* const sums = static_cast<float*>(a.scratch) + size_t(blockIdx.y) * 2 * n;
    sums[column] = dgamma;
    sums[n + column] = dbeta;
}

/// Version 2: a block takes a part of the rows, and its running sums of the columns lie in shared
/// memory, each column always the same thread's: no barrier for them. Half of the reads are gone.
template <class T, bool packs>
__global__ void layernorm_backward_kernel(layernorm_backward_args<T> a, int part_rows) {
    float* const dgamma = dynamic_shared<float>(); // (C)
    float* const dbeta = dgamma + a.channels;      // (C)
    const int width = packs ? backward_width : 1, n = a.channels;
    const auto mine = [&](auto f) {
        for (int i = int(threadIdx.x) * width; i < n; i += int(blockDim.x) * width)
            for (int k = 0; k < width; ++k) f(i + k);
    };
    mine([&](int i) { dgamma[i] = dbeta[i] = 0; });
    const size_t begin = size_t(blockIdx.x) * size_t(part_rows), end = begin + size_t(part_rows);
    for (size_t row = begin; row < end && row < size_t(a.rows); ++row)
        gradient_row<T, packs>(a, row, [&](size_t i, float dy, float normal) {
            dgamma[i] += dy * normal;
            dbeta[i] += dy;
        });
    float* const sums = static_cast<float*>(a.scratch) + size_t(blockIdx.x) * 2 * size_t(n);
    mine([&](int i) {
        sums[i] = dgamma[i];
        sums[n + i] = dbeta[i];
    });
}

/// dgamma and dbeta: the parts' sums, added in order.
template <class T>
__global__ void layernorm_sums_kernel(T* dgamma, T* dbeta, const float* sums, int parts,
                                      int channels) {
    const size_t n = size_t(channels), i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= 2 * n) return;
    float total = 0;
    for (int p = 0; p < parts; ++p) total += sums[size_t(p) * 2 * n + i];
    (i < n ? dgamma[i] : dbeta[i - n]) = from_float<T>(total);
}

// ---- launchers ---------------------------------------------------------------------------------

/// y, mean, rstd of x, gamma, beta.
template <class T>
void layernorm_forward(const layernorm_forward_args<T>& a, cudaStream_t stream) {
    if (a.rows == 0 || a.channels == 0) return;
    if (a.channels <= 1024) // a warp a row
        launch<layernorm_forward_kernel<T, false>>(
            {blocks_for(size_t(a.rows), 4), 128, 0, stream}, a);
    else
        launch<layernorm_forward_kernel<T, true>>(
            {blocks_for(size_t(a.rows), 1),
             threads_for(size_t(a.channels), pack_width(sizeof(T)), 512), 0, stream},
            a);
}

/// Bytes of scratch that layernorm_backward wants.
inline size_t layernorm_backward_bytes(int rows, int channels) {
    return size_t(row_parts(rows)) * 2 * size_t(channels) * sizeof(float);
}

/// May rows be read in packs by backward?
template <class T>
bool backward_packs(const layernorm_backward_args<T>& a) {
    return a.channels % backward_width == 0 && fit<backward_width>(a.dx, a.dy, a.x, a.gamma);
}

template <class T>
void add_layernorm_parts(const layernorm_backward_args<T>& a, cudaStream_t stream) {
    launch<layernorm_sums_kernel<T>>({blocks_for(2 * size_t(a.channels), 256), 256, 0, stream},
                                     a.dgamma, a.dbeta, static_cast<const float*>(a.scratch),
                                     row_parts(a.rows), a.channels);
}

/// Version 1, for any number of channels.
template <class T>
void layernorm_backward_apart(const layernorm_backward_args<T>& a, cudaStream_t stream) {
    if (a.channels == 0) return;
    const unsigned parts = unsigned(row_parts(a.rows));
    if (a.rows > 0) { // columns first: where dx is dy, it is gone afterwards
        launch<layernorm_columns_kernel<T>>(
            {dim3(blocks_for(size_t(a.channels), 128), parts), 128, 0, stream}, a,
            rows_of_part(a.rows));
        const launch_config how{blocks_for(size_t(a.rows), 1),
                                threads_for(size_t(a.channels), backward_width, 512), 0, stream};
        if (backward_packs(a))
            launch<layernorm_dx_kernel<T, true>>(how, a);
        else
            launch<layernorm_dx_kernel<T, false>>(how, a);
    }
    add_layernorm_parts(a, stream);
}

/// dx, dgamma, dbeta. Without rows the sums are 0.
template <class T>
void layernorm_backward(const layernorm_backward_args<T>& a, cudaStream_t stream) {
    const size_t shared = 2 * size_t(a.channels) * sizeof(float);
    if (shared > 40 * 1024) return layernorm_backward_apart(a, stream); // more than 5120 channels
    if (a.channels == 0) return;
    if (a.rows > 0) {
        const launch_config how{unsigned(row_parts(a.rows)),
                                threads_for(size_t(a.channels), backward_width, 512), shared,
                                stream};
        if (backward_packs(a))
            launch<layernorm_backward_kernel<T, true>>(how, a, rows_of_part(a.rows));
        else
            launch<layernorm_backward_kernel<T, false>>(how, a, rows_of_part(a.rows));
    }
    add_layernorm_parts(a, stream);
}

} // namespace mpt::kernels
