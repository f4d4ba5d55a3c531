// SPDX-License-Identifier: MIT
/// @file attention_fma.cuh
/// Causal attention forward, in tiles: no array of scores in memory.       tier 3, needs:
/// kernels/attention_tiles.cuh kernels/launch.cuh kernels/scalar.cuh
///
/// Idea     64 queries stay in shared memory, 32 keys and values at a time come by. Of the softmax
///          only the largest score so far and the sum of e^(score - largest) are kept; a larger
///          one that comes later scales down what was summed. Tiles behind the last visible key
///          are never fetched.
/// Formula  m' = max(m, max s),  l' = e^(m-m') l + sum e^(s-m'),  o' = e^(m-m') o + sum e^(s-m') v
///          out = o / l,  lse = m + ln l;  nothing seen: out = 0, lse = -inf
/// Costs    4 Tq Tk head_dim operations a head, half of it where causal; memory O(T).
///          40 to 64 KB of shared memory a block
/// Breaks   -inf - (-inf): a row that has seen nothing keeps 0 as its largest for the subtraction
/// Source   Milakov, Gimelshein 2018, arXiv:1805.02867; Dao 2023, arXiv:2307.08691, algorithm 1
/// See      nn/attention.hpp (the loop), attention_wmma.cuh (its next step),
///          attention_fma_backward.cuh, tests/kernels/attention_test.cpp
#pragma once
#include "mpt/kernels/attention_tiles.cuh" // attention_args, dot_products, add_weighted
#include "mpt/kernels/launch.cuh"          // launch, dynamic_shared
#include "mpt/kernels/scalar.cuh"          // infinity

#include <cmath>
#include <cstddef>

namespace mpt::kernels {

template <int C>
constexpr int attention_forward_floats() { // of shared memory
    constexpr int keys = attention_columns * C, weights = 64 * attention_columns;
    return 64 * C + attention_columns * C + (keys > weights ? keys : weights);
}

// 64 queries of head blockIdx.y of sample blockIdx.z; C: head_dim's room, a multiple of 32.
template <int C, class T>
__device__ void attention_forward_block(const attention_args<T>& x, const dropout_mask& mask) {
    constexpr int R = 4, rows = 16 * R, columns = attention_columns;
    float* const q = dynamic_shared<float>();          // (64, C)
    float* const v = q + rows * C;                     // (32, C)
    float* const k = v + columns * C;                  // (32, C), then weights (64, 32)
    const int down = int(threadIdx.x) / 8, across = int(threadIdx.x) % 8, D = x.head_dim;
    const int i0 = int(gridDim.x - 1 - blockIdx.x) * rows; // the longest rows first
    const int h = int(blockIdx.y), b = int(blockIdx.z);
    const int exist = x.Tq - i0 < rows ? x.Tq - i0 : rows, end = x.seen(i0 + exist - 1);
    const float scale = x.scale * log2_e;              // scores in powers of 2

    load_rows<C, R>(q, x.q + x.q_at(b, i0, h), x.q_stride, rows, exist, D);
    float o[R][C / 32][4] = {};                        // (4 rows, C / 8) of (64, C)
    float m[R], l[R];                                  // l: this thread's part of the sum
    for (int r = 0; r < R; ++r) m[r] = -infinity, l[r] = 0;
    for (int j0 = 0; j0 < end; j0 += columns) {
        load_rows<C, 4>(k, x.k + x.kv_at(b, j0, h), x.kv_stride, columns, x.Tk - j0, D);
        load_rows<C, 4>(v, x.v + x.kv_at(b, j0, h), x.kv_stride, columns, x.Tk - j0, D);
        __syncthreads();
        float s[R][4];                                 // of (64, 32)
        dot_products<C, R>(s, q, k, D);
        for (int r = 0; r < R; ++r) {
            const int i = i0 + R * down + r, j = j0 + 4 * across, seen = x.seen(i);
            float top = m[r];
            for (int c = 0; c < 4; ++c) {
                s[r][c] = j + c < seen ? s[r][c] * scale : -infinity;
                top = fmaxf(top, s[r][c]);
            }
            top = row_max(top);
            const float from = top == -infinity ? 0.0f : top, before = exp2f(m[r] - from);
            m[r] = top;
            l[r] *= before;
            for (int c = 0; c < 4; ++c) l[r] += s[r][c] = exp2f(s[r][c] - from);
            for (int g = 0; g < C / 32; ++g)
                for (int c = 0; c < 4; ++c) o[r][g][c] *= before;
            if (x.drop.p > 0) { // after the sum: what is left out does not change the others
                const random4 w = four_words(mask, b, x.element(h, i, j));
                for (int c = 0; c < 4; ++c) s[r][c] = mask.apply(s[r][c], w.x[c]);
            }
        }
        __syncthreads(); // all have read k, whose place the weights take
        put_weights<R>(k, s);
        __syncwarp();
        add_weighted<C, R>(o, k, v);
        __syncthreads(); // before the next keys and values
    }
    const size_t at = x.out_at(b, i0, h);
    const bool vectors = aligned_to_four(x.out + at, x.out_stride);
    for (int r = 0; r < R; ++r) {
        const int row = R * down + r;
        const float sum = row_sum(l[r]);
        if (row >= exist) continue;
        store_row<C>(o[r], sum == 0 ? 0.0f : 1.0f / sum, x.out + at + size_t(row) * x.out_stride,
                     D, vectors);
        if (across == 0 && x.lse)
            x.lse[x.lse_at(b, i0 + row, h)] = sum == 0 ? -infinity : m[r] * ln_2 + logf(sum);
    }
}

template <class T, int C>
__global__ void __launch_bounds__(128, 2) attention_fma_kernel(attention_args<T> x,
                                                               dropout_mask mask) {
    attention_forward_block<C>(x, mask.placed());
}

template <int C, class T>
void launch_attention_fma(const attention_args<T>& x, cudaStream_t s) {
    launch<attention_fma_kernel<T, C>>(
        {{unsigned((x.Tq + 63) / 64), unsigned(x.heads), unsigned(x.B)},
         attention_threads,
         attention_forward_floats<C>() * sizeof(float),
         s},
        x, mask_of(x.drop));
}

/// out and lse of q, k, v.
template <class T>
void attention_forward_fma(attention_args<T> x, cudaStream_t s) {
    x = checked(x);
    if (x.B == 0 || x.Tq == 0 || x.heads == 0) return;
    if (x.head_dim <= 32) return launch_attention_fma<32>(x, s);
    if (x.head_dim <= 64) return launch_attention_fma<64>(x, s);
    launch_attention_fma<128>(x, s);
}

} // namespace mpt::kernels
