// SPDX-License-Identifier: MIT
/// @file embedding.cuh
/// A row for each token plus a row for each position, on the device.       tier 3, needs:
/// kernels/elementwise.cuh kernels/scalar.cuh kernels/sort.cuh
///
/// Idea     Backward: many positions share a token, and their gradients end in one row. Adding them
///          by atomics is short, but has other bits in each run and, in 16 bits, loses almost all.
///          Sorted by token, a token's positions lie side by side: one block adds them in fp32, in
///          the order of the positions. That is the plain loop's order, so its bits.
/// Formula  y[b,t] = wte[token[b,t]] + wpe[t];  dwte[v] += sum of dy at the positions of token v
/// Costs    bytes an element: forward 2 reads, 1 write; backward 2 reads of dy, and a read and a
///          write of each row of dwte whose token occurs; 16 bytes of scratch a position and more
/// Breaks   4096 gradients of 1.0 added up in 16 bits: 256 in bf16, 2048 in fp16. A token outside
///          the vocabulary cannot throw here: its y is NaN, its gradient is dropped
/// Source   karpathy/llm.c#272 (deterministic, fp32 sums)
/// See      nn/embedding.hpp (the same bits), sort.cuh, tests/kernels/embedding_test.cpp
#pragma once
#include "mpt/kernels/elementwise.cuh" // for_my_elements, over_elements
#include "mpt/kernels/scalar.cuh"      // pack, load, store, fit, to_float, from_float
#include "mpt/kernels/sort.cuh"        // sort_positions

namespace mpt::kernels {

template <class E>
struct embedding_forward_args {
    E* y;              // (B,T,C)
    const int* tokens; // (B,T)
    const E* wte;      // (V,C)
    const E* wpe;      // (T or more,C)
    int B, T, C, V;
};

template <class E>
struct embedding_backward_args {
    E* dwte;           // (V,C), added to: the tied head has written its part before
    E* dwpe;           // (positions,C), overwritten
    const E* dy;       // (B,T,C)
    const int* tokens; // (B,T)
    int B, T, C, V;
    void* scratch;     // embedding_backward_bytes(B, T)
    int positions = 0; // rows of dwpe, at least T; 0: T. Those past T become 0
};

/// A block a position, in steps of the grid.
template <class E, int width>
__global__ void embedding_forward_kernel(embedding_forward_args<E> a) {
    const size_t rows = size_t(a.B) * size_t(a.T), C = size_t(a.C);
    for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int token = a.tokens[row];
        const bool known = token >= 0 && token < a.V;
        const E* const w = a.wte + (known ? size_t(token) : 0) * C;
        const E* const at = a.wpe + row % size_t(a.T) * C;
        for (size_t i = threadIdx.x * width; i < C; i += size_t(blockDim.x) * width) {
            const pack<E, width> p = load<width>(w + i), q = load<width>(at + i);
            pack<E, width> sum;
            for (int k = 0; k < width; ++k)
                sum.x[k] = from_float<E>(known ? __fadd_rn(to_float(p.x[k]), to_float(q.x[k]))
                                               : __uint_as_float(0x7FC00000u)); // NaN
            store(a.y + row * C + i, sum);
        }
    }
}

/// The first of the sorted keys that is larger.
__device__ inline int end_of_run(const int* keys, int first, int n, int key) {
    int low = first, high = n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (keys[middle] > key)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/// A block for each sorted position that is the first of its token; grid.y over the columns.
template <class E, int width>
__global__ void embedding_sums_kernel(embedding_backward_args<E> a, sorted s) {
    const int n = a.B * a.T, first = int(blockIdx.x), token = s.keys[first];
    if (token >= a.V || (first > 0 && s.keys[first - 1] == token)) return;
    const int end = end_of_run(s.keys, first, n, token);
    const size_t C = size_t(a.C);
    for (size_t i = (size_t(blockIdx.y) * blockDim.x + threadIdx.x) * width; i < C;
         i += size_t(gridDim.y) * blockDim.x * width) {
        float sum[width] = {};
        constexpr int ahead = 4; // rows that are loaded before the first is added
        for (int j = first; j < end; j += ahead) {
            pack<E, width> d[ahead] = {};
            for (int r = 0; r < ahead; ++r)
                if (j + r < end) d[r] = load<width>(a.dy + size_t(s.positions[j + r]) * C + i);
            for (int r = 0; r < ahead; ++r)
                for (int k = 0; k < width; ++k)
                    if (j + r < end) sum[k] = __fadd_rn(sum[k], to_float(d[r].x[k]));
        }
        pack<E, width> w = load<width>(a.dwte + size_t(token) * C + i);
        for (int k = 0; k < width; ++k)
            w.x[k] = from_float<E>(__fadd_rn(sum[k], to_float(w.x[k])));
        store(a.dwte + size_t(token) * C + i, w);
    }
}

/// dwpe: a position's sums over the samples, in their order.
template <class E, int width>
__global__ void embedding_positions_kernel(embedding_backward_args<E> a) {
    const size_t C = size_t(a.C), sample = size_t(a.T) * C;
    for_my_elements<width>(size_t(a.positions) * C, [&](size_t i, auto part) {
        constexpr int count = part.count;
        float sum[count] = {};
        for (int b = 0; i < sample && b < a.B; ++b) {
            const pack<E, count> d = load<count>(a.dy + size_t(b) * sample + i);
            for (int k = 0; k < count; ++k) sum[k] = __fadd_rn(sum[k], to_float(d.x[k]));
        }
        pack<E, count> w;
        for (int k = 0; k < count; ++k) w.x[k] = from_float<E>(sum[k]);
        store(a.dwpe + i, w);
    });
}

// ---- launchers ---------------------------------------------------------------------------------

template <class E, int width>
void launch_embedding_forward(const embedding_forward_args<E>& a, cudaStream_t stream) {
    launch<embedding_forward_kernel<E, width>>({blocks_for(size_t(a.B) * size_t(a.T), 1),
                                                threads_for(size_t(a.C), width, 256), 0, stream},
                                               a);
}

/// y (B,T,C) from tokens (B,T), wte (V,C), wpe (T or more,C).
template <class E>
void embedding_forward(const embedding_forward_args<E>& a, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(E));
    if (a.B == 0 || a.T == 0 || a.C == 0) return;
    if (a.C % w == 0 && fit<w>(a.y, a.wte, a.wpe))
        launch_embedding_forward<E, w>(a, stream);
    else
        launch_embedding_forward<E, 1>(a, stream);
}

/// Bytes of scratch that embedding_backward wants.
inline size_t embedding_backward_bytes(int B, int T) { return sort_bytes(size_t(B) * size_t(T)); }

template <class E, int width>
void launch_embedding_backward(const embedding_backward_args<E>& a, cudaStream_t stream) {
    const size_t C = size_t(a.C), n = size_t(a.B) * size_t(a.T);
    if (n > 0) {
        const sorted s = sort_positions(a.tokens, n, a.V, a.scratch, stream);
        const unsigned threads = threads_for(C, width, 128);
        const unsigned columns = blocks_for(C, threads * width); // few: so long rows are shared
        launch<embedding_sums_kernel<E, width>>(
            {dim3(unsigned(n), columns < 65535 ? columns : 65535), threads, 0, stream}, a, s);
    }
    launch<embedding_positions_kernel<E, width>>(
        over_elements(size_t(a.positions) * C, width, stream), a);
}

/// dwte += the sums of dy by token; dwpe = its sums by position, 0 past T. fp32, rounded once.
template <class E>
void embedding_backward(embedding_backward_args<E> a, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(E));
    if (a.positions < a.T) a.positions = a.T;
    if (a.C == 0 || a.positions == 0) return;
    if (a.C % w == 0 && fit<w>(a.dwte, a.dwpe, a.dy))
        launch_embedding_backward<E, w>(a, stream);
    else
        launch_embedding_backward<E, 1>(a, stream);
}

} // namespace mpt::kernels
