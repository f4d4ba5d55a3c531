// SPDX-License-Identifier: MIT
/// @file attention_wmma_backward.cuh
/// Attention's gradients on tensor cores, for 16 bits.                     tier 3, needs:
/// kernels/async_copy.cuh kernels/attention_fma_backward.cuh kernels/attention_tiles.cuh
/// kernels/attention_wmma.cuh kernels/four.cuh kernels/launch.cuh kernels/scalar.cuh
/// kernels/tensor_core.cuh
///
/// Idea     Changed: the seven products are tensor cores', in tiles of 64 by 64. A warp makes the
///          weights (P and dS) of 16 queries. For dk and dv it then takes 16 keys instead, of the
///          weights of all four warps, which lie in shared memory and are read by columns.
/// Costs    48 to 97 KB of shared memory a block; P and dS rounded to 16 bits (dS before its scale)
/// Source   Dao 2023, FlashAttention-2, arXiv:2307.08691, algorithm 2
/// See      attention_fma_backward.cuh (the step before), tests/kernels/attention_test.cpp
#pragma once
#include "mpt/kernels/async_copy.cuh"             // close_copies, wait_copies
#include "mpt/kernels/attention_fma_backward.cuh" // attention_backward_args, attention_sums
#include "mpt/kernels/attention_tiles.cuh"        // attention_args, checked, four_words
#include "mpt/kernels/attention_wmma.cuh"         // fetch_rows, warp_scores, add_products
#include "mpt/kernels/four.cuh"                   // load_four, store_four
#include "mpt/kernels/launch.cuh"                 // launch, dynamic_shared
#include "mpt/kernels/scalar.cuh"                 // pack, store, from_float
#include "mpt/kernels/tensor_core.cuh"            // c_fragment, has_tensor_cores

#include <cstddef>

namespace mpt::kernels {

// Shared memory of both kernels: four tiles (64,C), weights (64,64) in T, scores (16,64) a warp.
template <class T, int C>
constexpr size_t attention_wmma_backward_bytes() {
    constexpr size_t bytes = (4 * wmma_tile<C> + wmma_rows * weights_pitch) * sizeof(T) +
                             4 * 16 * scores_pitch * sizeof(float);
    constexpr size_t plain = attention_backward_floats<C>() * sizeof(float);
    return bytes > plain ? bytes : plain;
}

// The thread's place in a tile of 64 by 64: half of one of its warp's 16 rows.
struct half_row {
    int warp, row, first; // row of the warp; first of 32 columns

    __device__ half_row()
        : warp(int(threadIdx.x) / 32), row(int(threadIdx.x) % 16),
          first(int(threadIdx.x) % 32 / 16 * 32) {}
    template <class T>
    __device__ T* in(T* weights) const { // (64,64)
        return weights + (16 * warp + row) * weights_pitch + first;
    }
};

// dS, before its scale, of the thread's half row of 64 queries from i0 on by 64 keys from j0 on; P,
// through the mask, goes to `weights` unless that is null. q, dout (64,C); k, v (64,C); scores
// (16,64) of the warp.
template <int C, class T>
__device__ void make_weights(pack<T, 4> (&ds)[8], T* weights, const attention_backward_args<T>& y,
                             const dropout_mask& mask, int b, int h, int i0, int j0, const T* q,
                             const T* dout, const T* k, const T* v, float* scores) {
    const attention_args<T>& x = y.forward;
    const half_row at;
    const int i = i0 + 16 * at.warp + at.row, seen = i < x.Tq ? x.seen(i) : 0;
    const size_t place = x.lse_at(b, i, h);
    const float lse = i < x.Tq ? x.lse[place] * log2_e : 0.0f, scale = x.scale * log2_e;
    const float sum = i < x.Tq ? static_cast<const float*>(y.scratch)[place] : 0.0f;
    const float* const mine = scores + at.row * scores_pitch + at.first;

    warp_scores<C>(scores, q + 16 * at.warp * wmma_pitch<C>, k, x.head_dim);
    float p[8][4];                                     // (32) of the row
    for (int g = 0; g < 8; ++g) {
        load_four(p[g], mine + 4 * g, 4, true);
        for (int c = 0; c < 4; ++c)
            p[g][c] = j0 + at.first + 4 * g + c < seen ? exp2f(p[g][c] * scale - lse) : 0.0f;
    }
    __syncwarp(); // before dP takes the place of the scores
    warp_scores<C>(scores, dout + 16 * at.warp * wmma_pitch<C>, v, x.head_dim);
    for (int g = 0; g < 8; ++g) {
        float dp[4], dropped[4];
        load_four(dp, mine + 4 * g, 4, true);
        random4 w{};
        if (x.drop.p > 0) w = four_words(mask, b, x.element(h, i, j0 + at.first + 4 * g));
        for (int c = 0; c < 4; ++c) {
            dropped[c] = x.drop.p > 0 ? mask.apply(p[g][c], w.x[c]) : p[g][c];
            if (x.drop.p > 0) dp[c] = mask.apply(dp[c], w.x[c]);
            ds[g].x[c] = from_float<T>(p[g][c] * (dp[c] - sum));
        }
        if (weights) store_four(at.in(weights) + 4 * g, dropped, 4, true);
    }
}

template <class T>
__device__ void put_half_row(T* weights, const pack<T, 4> (&x)[8]) {
    const half_row at;
    for (int g = 0; g < 8; ++g) store(at.in(weights) + 4 * g, x[g]);
}

// dk, dv of 64 keys of key/value head blockIdx.y.
template <class T, int C>
__global__ void __launch_bounds__(128, 2)
    attention_wmma_keys_kernel(attention_backward_args<T> y, dropout_mask given) {
    const attention_args<T>& x = y.forward;
    const dropout_mask mask = given.placed();
    const int j0 = int(blockIdx.x) * wmma_rows, b = int(blockIdx.z), group = x.heads / x.kv_heads;
    if constexpr (!has_tensor_cores<T>) {
        constexpr int rows = 16 * backward_rows<C>;    // 64, or half of it
        for (int j = j0; j < j0 + wmma_rows && j < x.Tk; j += rows) {
            attention_backward_keys<C>(y, mask, j / rows);
            __syncthreads();
        }
    } else {
        T* const k = dynamic_shared<T>();              // (64,C)
        T* const v = k + wmma_tile<C>;                 // (64,C)
        T* const q = v + wmma_tile<C>;                 // (64,C)
        T* const dout = q + wmma_tile<C>;              // (64,C)
        T* const weights = dout + wmma_tile<C>;        // (64,64): P, then dS
        const int warp = int(threadIdx.x) / 32, D = x.head_dim, exist = x.Tk - j0;
        float* const scores = reinterpret_cast<float*>(weights + wmma_rows * weights_pitch) +
                              warp * 16 * scores_pitch; // (16,64)
        int first = x.causal ? j0 - (x.Tk - x.Tq) : 0; // the first query that sees a key of these
        first = first < 0 ? 0 : first / wmma_rows * wmma_rows;

        const size_t at = x.kv_at(b, j0, int(blockIdx.y) * group);
        fetch_rows<C>(k, x.k + at, x.kv_stride, exist, D);
        fetch_rows<C>(v, x.v + at, x.kv_stride, exist, D);
        c_fragment<T> dk[C / 16], dv[C / 16];          // (16,C) of the keys
        for (auto& f : dk) wmma::fill_fragment(f, 0.0f);
        for (auto& f : dv) wmma::fill_fragment(f, 0.0f);
        for (int h = int(blockIdx.y) * group; h < (int(blockIdx.y) + 1) * group; ++h)
            for (int i0 = first; i0 < x.Tq; i0 += wmma_rows) {
                const int left = x.Tq - i0;
                __syncthreads(); // the queries before are done with
                fetch_rows<C>(q, x.q + x.q_at(b, i0, h), x.q_stride, left, D);
                fetch_rows<C>(dout, y.dout + x.out_at(b, i0, h), x.out_stride, left, D);
                close_copies();
                wait_copies<0>();
                __syncthreads();
                pack<T, 4> ds[8];                      // (32) of a row
                make_weights<C>(ds, weights, y, mask, b, h, i0, j0, q, dout, k, v, scores);
                __syncthreads();
                add_products<C, true>(dv, weights + 16 * warp, dout, left);
                __syncthreads();
                put_half_row(weights, ds);
                __syncthreads();
                add_products<C, true>(dk, weights + 16 * warp, q, left);
            }
        wait_copies<0>();
        const size_t mine = at + size_t(16 * warp) * x.kv_stride;
        store_sum<C>(dk, x.scale, y.dk + mine, x.kv_stride, exist - 16 * warp, D, scores);
        store_sum<C>(dv, 1.0f, y.dv + mine, x.kv_stride, exist - 16 * warp, D, scores);
    }
}

// dq of 64 queries of head blockIdx.y.
template <class T, int C>
__global__ void __launch_bounds__(128, 2)
    attention_wmma_queries_kernel(attention_backward_args<T> y, dropout_mask given) {
    const attention_args<T>& x = y.forward;
    const dropout_mask mask = given.placed();
    const int i0 = int(gridDim.x - 1 - blockIdx.x) * wmma_rows; // the longest rows first
    const int h = int(blockIdx.y), b = int(blockIdx.z);
    if constexpr (!has_tensor_cores<T>) {
        constexpr int rows = 16 * backward_rows<C>;
        for (int i = i0; i < i0 + wmma_rows && i < x.Tq; i += rows) {
            attention_backward_queries<C>(y, mask, i / rows);
            __syncthreads();
        }
    } else {
        T* const q = dynamic_shared<T>();              // (64,C)
        T* const dout = q + wmma_tile<C>;              // (64,C)
        T* const k = dout + wmma_tile<C>;              // (64,C)
        T* const v = k + wmma_tile<C>;                 // (64,C)
        T* const weights = v + wmma_tile<C>;           // (64,64): dS, each warp its own rows
        const int warp = int(threadIdx.x) / 32, D = x.head_dim;
        float* const scores = reinterpret_cast<float*>(weights + wmma_rows * weights_pitch) +
                              warp * 16 * scores_pitch; // (16,64)
        const int exist = x.Tq - i0 < wmma_rows ? x.Tq - i0 : wmma_rows;
        const int end = x.seen(i0 + exist - 1);

        fetch_rows<C>(q, x.q + x.q_at(b, i0, h), x.q_stride, exist, D);
        fetch_rows<C>(dout, y.dout + x.out_at(b, i0, h), x.out_stride, exist, D);
        c_fragment<T> dq[C / 16];                      // (16,C)
        for (auto& f : dq) wmma::fill_fragment(f, 0.0f);
        for (int j0 = 0; j0 < end; j0 += wmma_rows) {
            const size_t at = x.kv_at(b, j0, h);
            __syncthreads(); // the keys before are done with
            fetch_rows<C>(k, x.k + at, x.kv_stride, x.Tk - j0, D);
            fetch_rows<C>(v, x.v + at, x.kv_stride, x.Tk - j0, D);
            close_copies();
            wait_copies<0>();
            __syncthreads();
            pack<T, 4> ds[8];                          // (32) of a row
            make_weights<C, T>(ds, nullptr, y, mask, b, h, i0, j0, q, dout, k, v, scores);
            put_half_row(weights, ds);
            __syncwarp();
            add_products<C, false>(dq, weights + 16 * warp * weights_pitch, k, end - j0);
        }
        wait_copies<0>();
        store_sum<C>(dq, x.scale, y.dq + x.q_at(b, i0 + 16 * warp, h), x.q_stride,
                     exist - 16 * warp, D, scores);
    }
}

template <int C, class T>
void launch_attention_wmma_backward(const attention_backward_args<T>& y, cudaStream_t s) {
    constexpr size_t bytes = attention_wmma_backward_bytes<T, C>();
    const attention_args<T>& x = y.forward;
    const auto blocks = [](int n) { return unsigned((n + wmma_rows - 1) / wmma_rows); };
    if (x.Tk > 0)
        launch<attention_wmma_keys_kernel<T, C>>(
            {{blocks(x.Tk), unsigned(x.kv_heads), unsigned(x.B)}, attention_threads, bytes, s}, y,
            mask_of(x.drop));
    if (x.Tq > 0)
        launch<attention_wmma_queries_kernel<T, C>>(
            {{blocks(x.Tq), unsigned(x.heads), unsigned(x.B)}, attention_threads, bytes, s}, y,
            mask_of(x.drop));
}

/// dq, dk, dv (overwritten) of dout.
template <class T>
void attention_backward_wmma(attention_backward_args<T> y, cudaStream_t s) {
    static_assert(sizeof(T) == 2, "attention_backward_wmma: __half or __nv_bfloat16");
    y.forward = checked(y.forward);
    if (y.forward.B == 0 || y.forward.heads == 0) return;
    attention_sums(y, s);
    if (y.forward.head_dim <= 32) return launch_attention_wmma_backward<32>(y, s);
    if (y.forward.head_dim <= 64) return launch_attention_wmma_backward<64>(y, s);
    launch_attention_wmma_backward<128>(y, s);
}

} // namespace mpt::kernels
