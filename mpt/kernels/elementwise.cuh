// SPDX-License-Identifier: MIT
/// @file elementwise.cuh
/// fill, add, and the sum over a window.                                   tier 3, needs:
/// kernels/scalar.cuh
///
/// Idea     A thread takes a pack of 16 bytes of each array, the next thread the next pack: a load
///          of a warp is 512 bytes in a row, 16 sectors of 32 bytes, none moved for nothing.
/// Formula  y = value;  y = a + b;  sums = g or sums + g, in fp32
/// Costs    bytes an element: fill 1 write; add 2 reads, 1 write; sums 4 + 4 + size of g.
///          Arithmetic is free: a GPU does some 30 operations in the time of one byte
/// Breaks   a pack that reaches past the end: the last few elements go one by one
/// See      scalar.cuh (packs), cast.cuh, tests/kernels/elementwise_test.cpp,
///          tests/kernels/costs_checked.cpp (the bytes of all kernels)
#pragma once
#include "mpt/kernels/scalar.cuh" // pack, load, store, part, fit, to_float, from_float

namespace mpt::kernels {

constexpr unsigned element_threads = 256; // of a block: 8 warps, so 8 blocks fill most GPUs

/// f(at, part) for this thread's elements below n: `width` at a time, at a multiple of it, so that
/// packs may be used, but for the rest at the end, which comes one by one.
template <int width, class F>
__device__ inline void for_my_elements(size_t n, F f) {
    const size_t step = size_t(gridDim.x) * blockDim.x * width; // the whole grid's
    for (size_t i = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * width; i < n; i += step) {
        if (n - i >= size_t(width))
            f(i, part<width>{});
        else
            for (size_t k = i; k < n; ++k) f(k, part<1>{});
    }
}

template <class T, int width>
__global__ void fill_kernel(T* y, T value, size_t n) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        constexpr int count = part.count;
        pack<T, count> p;
        for (T& x : p.x) x = value;
        store(y + i, p);
    });
}

template <class T, int width>
__global__ void add_kernel(T* y, const T* a, const T* b, size_t n) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        constexpr int count = part.count;
        pack<T, count> p = load<count>(a + i);
        const pack<T, count> q = load<count>(b + i);
        for (int k = 0; k < count; ++k)
            p.x[k] = from_float<T>(__fadd_rn(to_float(p.x[k]), to_float(q.x[k])));
        store(y + i, p);
    });
}

template <class T, int width>
__global__ void add_to_sums_kernel(float* sums, const T* g, size_t n, bool first) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        constexpr int count = part.count;
        pack<float, count> s;
        const pack<T, count> p = load<count>(g + i);
        if (!first) s = load<count>(sums + i); // before it, sums hold anything
        for (int k = 0; k < count; ++k)
            s.x[k] = first ? to_float(p.x[k]) : __fadd_rn(s.x[k], to_float(p.x[k]));
        store(sums + i, s);
    });
}

// ---- launchers ---------------------------------------------------------------------------------

inline launch_config over_elements(size_t n, int width, cudaStream_t stream) {
    return {blocks_for(n, element_threads * size_t(width)), element_threads, 0, stream};
}

/// y[i] = value, i < n.
template <class T>
void fill(T* y, T value, size_t n, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(T));
    if (n == 0) return;
    if (fit<w>(y))
        launch<fill_kernel<T, w>>(over_elements(n, w, stream), y, value, n);
    else
        launch<fill_kernel<T, 1>>(over_elements(n, 1, stream), y, value, n);
}

/// y[i] = a[i] + b[i], rounded once. y may be a or b.
template <class T>
void add(T* y, const T* a, const T* b, size_t n, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(T));
    if (n == 0) return;
    if (fit<w>(y, a, b))
        launch<add_kernel<T, w>>(over_elements(n, w, stream), y, a, b, n);
    else
        launch<add_kernel<T, 1>>(over_elements(n, 1, stream), y, a, b, n);
}

/// A window's gradients: sums[i] = g[i] for its first micro-batch, then sums[i] + g[i].
template <class T>
void add_to_sums(float* sums, const T* g, size_t n, bool first, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(float));
    if (n == 0) return;
    if (fit<w>(sums) && fit<w>(g))
        launch<add_to_sums_kernel<T, w>>(over_elements(n, w, stream), sums, g, n, first);
    else
        launch<add_to_sums_kernel<T, 1>>(over_elements(n, 1, stream), sums, g, n, first);
}

} // namespace mpt::kernels
