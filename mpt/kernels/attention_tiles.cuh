// SPDX-License-Identifier: MIT
/// @file attention_tiles.cuh
/// What attention's kernels share: the arguments, the mask, tiles in shared memory. tier 3, needs:
/// kernels/dropout.cuh kernels/four.cuh kernels/launch.cuh kernels/scalar.cuh
///
/// Idea     A block of 128 threads, 16 down by 8 across, works on 16 R rows (queries, or keys) by
///          32 columns (keys, or queries): R x 4 numbers a thread, neighbours both ways. The rows'
///          vectors lie in shared memory as groups of four; group g of row r at place
///          g xor (r / R mod 8) of the row, so that threads one below the other, whose rows are R
///          apart, meet eight different sixteens of the 32 banks, without a gap that costs room.
/// Formula  query i sees key j where j <= i + Tk - Tq: the last query sees all keys
/// Breaks   a v or k that is not finite reaches queries of its tile that do not see it, as 0 * inf
/// Source   Dao 2023, FlashAttention-2, arXiv:2307.08691; its mask since version 2.1
/// See      kernels/attention_fma.cuh, kernels/attention_fma_backward.cuh
#pragma once
#include "mpt/kernels/dropout.cuh" // dropout_args, dropout_mask
#include "mpt/kernels/four.cuh"    // load_four, store_four
#include "mpt/kernels/launch.cuh"  // __device__
#include "mpt/kernels/scalar.cuh"  // pack, load, store

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace mpt::kernels {

template <class T>
struct attention_args {
    const T* q = nullptr;  // (B,Tq,heads,head_dim); position to position: q_stride elements
    const T* k = nullptr;  // (B,Tk,kv_heads,head_dim), kv_stride
    const T* v = nullptr;  // as k
    T* out = nullptr;      // (B,Tq,heads,head_dim), out_stride
    float* lse = nullptr;  // (B,heads,Tq): ln of the sum of e^score; -inf where nothing is seen
    int B = 0, Tq = 0, Tk = 0;
    int heads = 0, kv_heads = 0, head_dim = 0; // head h reads kv head h / (heads / kv_heads)
    size_t q_stride = 0, kv_stride = 0, out_stride = 0;
    bool causal = true;
    float scale = 0;       // of the scores; 0: 1 / sqrt(head_dim)
    dropout_args drop;     // of probabilities: element (h Tq + i) Tk + j of the sample

    /// Keys that query i sees: the first so many.
    __device__ int seen(int i) const {
        if (!causal) return Tk;
        const int n = i + 1 + Tk - Tq;
        return n < 0 ? 0 : n < Tk ? n : Tk;
    }
    __device__ std::uint64_t element(int h, int i, int j) const {
        return (std::uint64_t(h) * unsigned(Tq) + unsigned(i)) * unsigned(Tk) + unsigned(j);
    }
    /// Of q, and of what lies like it; likewise k, v and out.
    __device__ size_t q_at(int b, int i, int h) const {
        return (size_t(b) * Tq + i) * q_stride + size_t(h) * head_dim;
    }
    __device__ size_t kv_at(int b, int j, int h) const { // h: a query head
        return (size_t(b) * Tk + j) * kv_stride + size_t(h / (heads / kv_heads)) * head_dim;
    }
    __device__ size_t out_at(int b, int i, int h) const {
        return (size_t(b) * Tq + i) * out_stride + size_t(h) * head_dim;
    }
    __device__ size_t lse_at(int b, int i, int h) const {
        return (size_t(b) * heads + h) * Tq + i;
    }
};

/// Refuses what the kernels do not know; gives the args with the scale filled in.
template <class T>
attention_args<T> checked(attention_args<T> x) {
    if (x.head_dim < 1 || x.head_dim > 128)
        throw std::invalid_argument("attention: head_dim is " + std::to_string(x.head_dim) +
                                    "; wanted is 1 to 128: use more, narrower heads");
    if (x.kv_heads < 1 || x.heads % x.kv_heads != 0)
        throw std::invalid_argument("attention: " + std::to_string(x.heads) + " query heads and " +
                                    std::to_string(x.kv_heads) +
                                    " key/value heads; the latter must divide the former");
    if (x.scale == 0) x.scale = 1.0f / std::sqrt(float(x.head_dim));
    return x;
}

inline constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;
inline constexpr unsigned attention_threads = 128;
inline constexpr int attention_columns = 32;

// Where group g (four elements) of a row lies; C: elements of a row, R: as in the card.
template <int C, int R>
__device__ int place_of(int row, int group) {
    return row * C + 4 * (group ^ (row / R & 7));
}

// tile (rows, C) = rows of D elements, `stride` apart; zeros behind row `exist` and behind D.
template <int C, int R, class T>
__device__ void load_rows(float* tile, const T* from, size_t stride, int rows, int exist, int D) {
    const bool vectors = aligned_to_four(from, stride);
    for (int e = int(threadIdx.x); e < rows * (C / 4); e += int(attention_threads)) {
        const int row = e / (C / 4), g = e % (C / 4);
        float x[4];
        load_four(x, from + size_t(row) * stride + 4 * g, row < exist ? D - 4 * g : 0, vectors);
        store(tile + place_of<C, R>(row, g), pack<float, 4>{{x[0], x[1], x[2], x[3]}});
    }
}

// s = this thread's R x 4 products of vectors: rows (16 R, C) by columns (32, C), D of each.
template <int C, int R>
__device__ void dot_products(float (&s)[R][4], const float* rows, const float* columns, int D) {
    const int down = int(threadIdx.x) / 8, across = int(threadIdx.x) % 8;
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < 4; ++c) s[r][c] = 0;
    for (int g = 0; 4 * g < D; ++g) {
        pack<float, 4> u[R], v[4];
        for (int r = 0; r < R; ++r) u[r] = load<4>(rows + place_of<C, R>(R * down + r, g));
        for (int c = 0; c < 4; ++c) v[c] = load<4>(columns + place_of<C, 4>(4 * across + c, g));
        for (int e = 0; e < 4; ++e)
            for (int r = 0; r < R; ++r)
                for (int c = 0; c < 4; ++c) s[r][c] += u[r].x[e] * v[c].x[e];
    }
}

// This thread's R x 4 numbers into the tile of weights (16 R, 32). Its rows are read by threads of
// the same warp alone: __syncwarp() between, no barrier.
template <int R>
__device__ void put_weights(float* weights, const float (&s)[R][4]) {
    const int down = int(threadIdx.x) / 8, across = int(threadIdx.x) % 8;
    for (int r = 0; r < R; ++r)
        store(weights + place_of<attention_columns, R>(R * down + r, across),
              pack<float, 4>{{s[r][0], s[r][1], s[r][2], s[r][3]}});
}

// sum += weights (16 R, 32) columns (32, C): of it a thread has R rows, in each the groups of four
// across, across + 8, ...
template <int C, int R>
__device__ void add_weighted(float (&sum)[R][C / 32][4], const float* weights,
                             const float* columns) {
    const int down = int(threadIdx.x) / 8, across = int(threadIdx.x) % 8;
    for (int j = 0; j < attention_columns; j += 4) {
        pack<float, 4> u[R];
        for (int r = 0; r < R; ++r)
            u[r] = load<4>(weights + place_of<attention_columns, R>(R * down + r, j / 4));
        for (int e = 0; e < 4; ++e)
            for (int g = 0; g < C / 32; ++g) {
                const pack<float, 4> v = load<4>(columns + place_of<C, 4>(j + e, across + 8 * g));
                for (int r = 0; r < R; ++r)
                    for (int c = 0; c < 4; ++c) sum[r][g][c] += u[r].x[e] * v.x[c];
            }
    }
}

// A row of such a sum, times `factor`, to the D elements at `to`.
template <int C, class T>
__device__ void store_row(const float (&sum)[C / 32][4], float factor, T* to, int D, bool vectors) {
    const int across = int(threadIdx.x) % 8;
    for (int g = 0; g < C / 32; ++g) {
        const int c = 4 * (across + 8 * g);
        const float x[4] = {sum[g][0] * factor, sum[g][1] * factor, sum[g][2] * factor,
                            sum[g][3] * factor};
        store_four(to + c, x, D - c, vectors);
    }
}

// The random words of elements e to e + 3 of sample b: of one counter, or of two.
__device__ inline random4 four_words(const dropout_mask& mask, int b, std::uint64_t e) {
    random4 w = mask.words(b, std::uint32_t(e / 4));
    if (e % 4 == 0) return w;
    random4 more = mask.words(b, std::uint32_t(e / 4 + 1));
    for (unsigned k = 0; k < 3; ++k) // by constant indices, so that words stay in registers
        if (k < e % 4) {
            w = {{w.x[1], w.x[2], w.x[3], more.x[0]}};
            more = {{more.x[1], more.x[2], more.x[3], 0}};
        }
    return w;
}

// Over the 8 threads that share rows.
__device__ inline float row_sum(float x) {
    for (int other = 4; other > 0; other /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, other);
    return x;
}
__device__ inline float row_max(float x) {
    for (int other = 4; other > 0; other /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, other));
    return x;
}

} // namespace mpt::kernels
