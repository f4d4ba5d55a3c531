// SPDX-License-Identifier: MIT
/// @file attention_fma_backward.cuh
/// Attention's three gradients, from what forward kept: one number a query. tier 3, needs:
/// kernels/attention_tiles.cuh kernels/launch.cuh kernels/scalar.cuh kernels/warp_reduce.cuh
///
/// Idea     The probabilities are made again, e^(score - lse), a tile at a time. One kernel holds
///          keys and lets queries come by (dk, dv), one holds queries and lets keys come by (dq):
///          each sum belongs to one thread, so there are no atomics and the order is fixed. The
///          block of a key/value head goes through all query heads of its group.
/// Formula  D = rowsum(dout out),  P = e^(S - lse),  dv = P^T dout,  dS = P (dout v^T - D) scale,
///          dq = dS k,  dk = dS^T q;  with dropout its mask on P for dv and on dout v^T
/// Costs    3.5 times forward's operations (2.5 without making the scores twice);
///          4 bytes of scratch a query and head; 34 to 69 KB of shared memory a block
/// Source   Dao 2023, FlashAttention-2, arXiv:2307.08691, algorithm 2
/// See      nn/attention.hpp (the loop), attention_wmma_backward.cuh (its next step),
///          tests/kernels/attention_test.cpp
#pragma once
#include "mpt/kernels/attention_tiles.cuh" // attention_args, dot_products, add_weighted
#include "mpt/kernels/launch.cuh"          // launch, dynamic_shared
#include "mpt/kernels/scalar.cuh"          // to_float, blocks_for
#include "mpt/kernels/warp_reduce.cuh"     // warp_sum

#include <cstddef>

namespace mpt::kernels {

template <class T>
struct attention_backward_args {
    attention_args<T> forward;  // as forward was given it, out and lse as it left them
    const T* dout = nullptr;    // lies as out
    T* dq = nullptr;            // lies as q
    T* dk = nullptr;            // lies as k
    T* dv = nullptr;            // lies as v
    void* scratch = nullptr;    // attention_backward_bytes()
};

/// Bytes of scratch: rowsum(dout out), a float for every query and head.
inline size_t attention_backward_bytes(int B, int heads, int Tq) {
    return size_t(B) * size_t(heads) * size_t(Tq) * sizeof(float);
}

// sums (B,heads,Tq) = rowsum(dout out); a warp a row.
template <class T>
__global__ void attention_sums_kernel(float* sums, attention_args<T> x, const T* dout) {
    const size_t rows = size_t(x.B) * x.heads * x.Tq, warps = size_t(gridDim.x) * (blockDim.x / 32);
    const int lane = int(threadIdx.x) % 32;
    for (size_t row = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; row < rows;
         row += warps) {
        const int i = int(row % x.Tq), h = int(row / x.Tq % x.heads);
        const size_t at = x.out_at(int(row / x.Tq / x.heads), i, h);
        float sum = 0;
        for (int c = lane; c < x.head_dim; c += 32)
            sum += to_float(dout[at + c]) * to_float(x.out[at + c]);
        sum = warp_sum(sum);
        if (lane == 0) sums[row] = sum;
    }
}

// Rows of a block. 64 of 128 elements, twice, and what comes by are more than a multiprocessor has.
template <int C>
inline constexpr int backward_rows = C == 128 ? 2 : 4; // R: 16 R rows

template <int C>
constexpr int attention_backward_floats() { // of shared memory
    constexpr int rows = 16 * backward_rows<C>;
    return 2 * rows * C + 2 * attention_columns * C + rows * attention_columns +
           2 * attention_columns;
}

// dk, dv of the tile-th 16 R keys of key/value head blockIdx.y. Rows are keys, columns queries.
template <int C, class T>
__device__ void attention_backward_keys(const attention_backward_args<T>& y,
                                        const dropout_mask& mask, int tile) {
    constexpr int R = backward_rows<C>, rows = 16 * R, columns = attention_columns;
    const attention_args<T>& x = y.forward;
    const float* const sums = static_cast<const float*>(y.scratch);
    float* const k = dynamic_shared<float>();          // (16 R, C)
    float* const v = k + rows * C;                     // (16 R, C)
    float* const q = v + rows * C;                     // (32, C)
    float* const go = q + columns * C;                 // (32, C): dout
    float* const weights = go + columns * C;           // (16 R, 32): P, then dS
    float* const lse = weights + rows * columns;       // (32), in powers of 2
    float* const sum = lse + columns;                  // (32)
    const int down = int(threadIdx.x) / 8, across = int(threadIdx.x) % 8, D = x.head_dim;
    const int j0 = tile * rows, b = int(blockIdx.z), group = x.heads / x.kv_heads;
    const int exist = x.Tk - j0 < rows ? x.Tk - j0 : rows;
    const float scale = x.scale * log2_e;
    int first = x.causal ? j0 - (x.Tk - x.Tq) : 0;     // the first query that sees a key of these
    first = first < 0 ? 0 : first / columns * columns;

    const size_t at = x.kv_at(b, j0, int(blockIdx.y) * group);
    load_rows<C, R>(k, x.k + at, x.kv_stride, rows, exist, D);
    load_rows<C, R>(v, x.v + at, x.kv_stride, rows, exist, D);
    float dk[R][C / 32][4] = {}, dv[R][C / 32][4] = {}; // (R rows, C / 8) of (16 R, C)
    for (int h = int(blockIdx.y) * group; h < (int(blockIdx.y) + 1) * group; ++h)
        for (int i0 = first; i0 < x.Tq; i0 += columns) {
            const int left = x.Tq - i0;
            __syncthreads(); // the queries before are done with
            load_rows<C, 4>(q, x.q + x.q_at(b, i0, h), x.q_stride, columns, left, D);
            load_rows<C, 4>(go, y.dout + x.out_at(b, i0, h), x.out_stride, columns, left, D);
            for (int c = int(threadIdx.x); c < columns; c += int(attention_threads)) {
                lse[c] = c < left ? x.lse[x.lse_at(b, i0 + c, h)] * log2_e : 0.0f;
                sum[c] = c < left ? sums[x.lse_at(b, i0 + c, h)] : 0.0f;
            }
            __syncthreads();
            float p[R][4], ds[R][4];                   // of (16 R, 32)
            dot_products<C, R>(p, k, q, D);
            dot_products<C, R>(ds, v, go, D);
            for (int c = 0; c < 4; ++c) {
                const int i = i0 + 4 * across + c, j = j0 + R * down;
                const int seen = i < x.Tq ? x.seen(i) : 0;
                random4 w{};
                if (x.drop.p > 0) w = four_words(mask, b, x.element(h, i, j));
                for (int r = 0; r < R; ++r) {
                    const float kept =
                        j + r < seen ? exp2f(p[r][c] * scale - lse[4 * across + c]) : 0.0f;
                    p[r][c] = x.drop.p > 0 ? mask.apply(kept, w.x[r]) : kept;
                    if (x.drop.p > 0) ds[r][c] = mask.apply(ds[r][c], w.x[r]);
                    ds[r][c] = kept * (ds[r][c] - sum[4 * across + c]) * x.scale;
                }
            }
            put_weights<R>(weights, p);
            __syncwarp();
            add_weighted<C, R>(dv, weights, go);
            __syncwarp(); // before dS takes the place of P
            put_weights<R>(weights, ds);
            __syncwarp();
            add_weighted<C, R>(dk, weights, q);
        }
    const bool vectors =
        aligned_to_four(y.dk + at, x.kv_stride) && aligned_to_four(y.dv + at, x.kv_stride);
    for (int r = 0; r < R; ++r) {
        const int row = R * down + r;
        if (row >= exist) continue;
        store_row<C>(dk[r], 1.0f, y.dk + at + size_t(row) * x.kv_stride, D, vectors);
        store_row<C>(dv[r], 1.0f, y.dv + at + size_t(row) * x.kv_stride, D, vectors);
    }
}

// dq of the tile-th 16 R queries of head blockIdx.y. Rows are queries, columns keys.
template <int C, class T>
__device__ void attention_backward_queries(const attention_backward_args<T>& y,
                                           const dropout_mask& mask, int tile) {
    constexpr int R = backward_rows<C>, rows = 16 * R, columns = attention_columns;
    const attention_args<T>& x = y.forward;
    const float* const sums = static_cast<const float*>(y.scratch);
    float* const q = dynamic_shared<float>();          // (16 R, C)
    float* const go = q + rows * C;                    // (16 R, C): dout
    float* const k = go + rows * C;                    // (32, C)
    float* const v = k + columns * C;                  // (32, C)
    float* const weights = v + columns * C;            // (16 R, 32): dS
    const int down = int(threadIdx.x) / 8, across = int(threadIdx.x) % 8, D = x.head_dim;
    const int i0 = tile * rows;
    const int h = int(blockIdx.y), b = int(blockIdx.z);
    const int exist = x.Tq - i0 < rows ? x.Tq - i0 : rows, end = x.seen(i0 + exist - 1);
    const float scale = x.scale * log2_e;

    const size_t at = x.q_at(b, i0, h);
    load_rows<C, R>(q, x.q + at, x.q_stride, rows, exist, D);
    load_rows<C, R>(go, y.dout + x.out_at(b, i0, h), x.out_stride, rows, exist, D);
    float lse[R], sum[R];
    for (int r = 0; r < R; ++r) {
        const int row = R * down + r;
        lse[r] = row < exist ? x.lse[x.lse_at(b, i0 + row, h)] * log2_e : 0.0f;
        sum[r] = row < exist ? sums[x.lse_at(b, i0 + row, h)] : 0.0f;
    }
    float dq[R][C / 32][4] = {};                       // (R rows, C / 8) of (16 R, C)
    for (int j0 = 0; j0 < end; j0 += columns) {
        __syncthreads(); // the keys before are done with
        load_rows<C, 4>(k, x.k + x.kv_at(b, j0, h), x.kv_stride, columns, x.Tk - j0, D);
        load_rows<C, 4>(v, x.v + x.kv_at(b, j0, h), x.kv_stride, columns, x.Tk - j0, D);
        __syncthreads();
        float p[R][4], ds[R][4];                       // of (16 R, 32)
        dot_products<C, R>(p, q, k, D);
        dot_products<C, R>(ds, go, v, D);
        for (int r = 0; r < R; ++r) {
            const int i = i0 + R * down + r, j = j0 + 4 * across;
            const int seen = i < x.Tq ? x.seen(i) : 0;
            random4 w{};
            if (x.drop.p > 0) w = four_words(mask, b, x.element(h, i, j));
            for (int c = 0; c < 4; ++c) {
                const float kept = j + c < seen ? exp2f(p[r][c] * scale - lse[r]) : 0.0f;
                if (x.drop.p > 0) ds[r][c] = mask.apply(ds[r][c], w.x[c]);
                ds[r][c] = kept * (ds[r][c] - sum[r]) * x.scale;
            }
        }
        put_weights<R>(weights, ds);
        __syncwarp();
        add_weighted<C, R>(dq, weights, k);
    }
    const bool vectors = aligned_to_four(y.dq + at, x.q_stride);
    for (int r = 0; r < R; ++r) {
        const int row = R * down + r;
        if (row < exist)
            store_row<C>(dq[r], 1.0f, y.dq + at + size_t(row) * x.q_stride, D, vectors);
    }
}

template <class T, int C>
__global__ void __launch_bounds__(128, 2)
    attention_fma_keys_kernel(attention_backward_args<T> y, dropout_mask mask) {
    attention_backward_keys<C>(y, mask.placed(), int(blockIdx.x));
}
template <class T, int C>
__global__ void __launch_bounds__(128, 2)
    attention_fma_queries_kernel(attention_backward_args<T> y, dropout_mask mask) {
    // the longest rows first
    attention_backward_queries<C>(y, mask.placed(), int(gridDim.x - 1 - blockIdx.x));
}

template <int C, class T>
void launch_attention_fma_backward(const attention_backward_args<T>& y, cudaStream_t s) {
    constexpr unsigned rows = 16 * backward_rows<C>;
    constexpr size_t bytes = attention_backward_floats<C>() * sizeof(float);
    const attention_args<T>& x = y.forward;
    const auto blocks = [](int n) { return (unsigned(n) + rows - 1) / rows; };
    if (x.Tk > 0)
        launch<attention_fma_keys_kernel<T, C>>(
            {{blocks(x.Tk), unsigned(x.kv_heads), unsigned(x.B)}, attention_threads, bytes, s}, y,
            mask_of(x.drop));
    if (x.Tq > 0)
        launch<attention_fma_queries_kernel<T, C>>(
            {{blocks(x.Tq), unsigned(x.heads), unsigned(x.B)}, attention_threads, bytes, s}, y,
            mask_of(x.drop));
}

/// The first of backward's kernels: rowsum(dout out) into the scratch.
template <class T>
void attention_sums(const attention_backward_args<T>& y, cudaStream_t s) {
    const attention_args<T>& x = y.forward;
    const size_t rows = size_t(x.B) * size_t(x.heads) * size_t(x.Tq);
    if (rows > 0)
        launch<attention_sums_kernel<T>>({blocks_for(rows, 4), 128, 0, s},
                                         static_cast<float*>(y.scratch), x, y.dout);
}

/// dq, dk, dv (overwritten) of dout.
template <class T>
void attention_backward_fma(attention_backward_args<T> y, cudaStream_t s) {
    y.forward = checked(y.forward);
    if (y.forward.B == 0 || y.forward.heads == 0) return;
    attention_sums(y, s);
    if (y.forward.head_dim <= 32) return launch_attention_fma_backward<32>(y, s);
    if (y.forward.head_dim <= 64) return launch_attention_fma_backward<64>(y, s);
    launch_attention_fma_backward<128>(y, s);
}

} // namespace mpt::kernels
