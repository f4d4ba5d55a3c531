// SPDX-License-Identifier: MIT
/// @file attention_wmma.cuh
/// Attention forward on tensor cores, for 16 bits.                         tier 3, needs:
/// kernels/async_copy.cuh kernels/attention_fma.cuh kernels/attention_tiles.cuh kernels/four.cuh
/// kernels/launch.cuh kernels/scalar.cuh kernels/tensor_core.cuh
///
/// Idea     Changed: both products are tensor cores', 64 keys at a time, 16 queries a warp. Scores
///          pass through shared memory, where two threads share a row, and come back as
///          probabilities in 16 bits. The sums stay in fragments. To scale their rows a thread
///          must know which rows its numbers are of: it loads, once, a matrix of row numbers.
///          Keys come while probabilities are worked out, values while scores are.
/// Costs    41 to 80 KB of shared memory a block; probabilities rounded to 16 bits, unnormalised
/// Source   Dao 2023, FlashAttention-2, arXiv:2307.08691
/// See      attention_fma.cuh (the step before), matmul_wmma.cuh
#pragma once
#include "mpt/kernels/async_copy.cuh"      // copy_16, close_copies, wait_copies
#include "mpt/kernels/attention_fma.cuh"   // attention_forward_block, attention_forward_floats
#include "mpt/kernels/attention_tiles.cuh" // attention_args, checked, four_words
#include "mpt/kernels/four.cuh"            // load_four, store_four, aligned_to_four
#include "mpt/kernels/launch.cuh"          // launch, dynamic_shared
#include "mpt/kernels/scalar.cuh"          // pack, load, store, infinity
#include "mpt/kernels/tensor_core.cuh"     // a_fragment, b_fragment, c_fragment, load_operand

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace mpt::kernels {

// A tile of vectors in shared memory: 64 rows of C elements of 16 bits, 8 more between rows so that
// eight rows begin in eight different sixteens of the banks.
inline constexpr int wmma_rows = 64;
template <int C>
inline constexpr int wmma_pitch = C + 8; // elements from row to row
template <int C>
inline constexpr int wmma_tile = wmma_rows * (C + 8); // elements
// A warp's scores (16, 64) in fp32, and weights (16, 64) in 16 bits.
inline constexpr int scores_pitch = 64 + 4, weights_pitch = 64 + 8;

// Order the copy of 64 rows of D elements, `stride` apart; zeros behind row `exist` and behind D.
template <int C, class T>
__device__ void fetch_rows(T* tile, const T* from, size_t stride, int exist, int D) {
    const bool whole = stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    for (int e = int(threadIdx.x); e < wmma_rows * (C / 8); e += int(attention_threads)) {
        const int row = e / (C / 8), c = e % (C / 8) * 8, left = row < exist ? D - c : 0;
        const int n = left < 0 ? 0 : left < 8 ? left : 8; // elements that exist
        T* const to = tile + row * wmma_pitch<C> + c;
        const T* const at = n > 0 ? from + size_t(row) * stride + c : from;
        if (whole)
            copy_16(to, at, n * int(sizeof(T)));
        else
            for (int i = 0; i < 8; ++i) to[i] = i < n ? at[i] : from_float<T>(0.0f);
    }
}

// scores (16,64) = rows (16,C) times columns (64,C) transposed; of C, D are not zero. As many
// fragments at a time as leave registers for backward's 16 others.
template <int C, class T>
__device__ void warp_scores(float* scores, const T* rows, const T* columns, int D) {
    constexpr int F = C > 64 ? 2 : 4;
    for (int j = 0; j < wmma_rows; j += 16 * F) {
        c_fragment<T> s[F];                            // (16, 16 F)
        for (auto& f : s) wmma::fill_fragment(f, 0.0f);
        for (int p = 0; p < D; p += 16) {
            a_fragment<T, false> u;                    // (16,16) of rows
            load_operand(u, rows + p, wmma_pitch<C>);
            for (int f = 0; f < F; ++f) {
                b_fragment<T, true> v;                 // (16,16) of columns, transposed
                load_operand(v, columns + (j + 16 * f) * wmma_pitch<C> + p, wmma_pitch<C>);
                wmma::mma_sync(s[f], u, v, s[f]);
            }
        }
        for (int f = 0; f < F; ++f)
            wmma::store_matrix_sync(scores + j + 16 * f, s[f], scores_pitch, wmma::mem_row_major);
    }
    __syncwarp();
}

// sum (16,C) += weights (16,64) columns (64,C). Transposed: the weights lie as (64,16). Behind the
// first `count` all weights are 0.
template <int C, bool Transposed, class T>
__device__ void add_products(c_fragment<T> (&sum)[C / 16], const T* weights, const T* columns,
                             int count) {
    for (int j = 0; j < wmma_rows && j < count; j += 16) {
        a_fragment<T, Transposed> u;                   // (16,16) of weights
        load_operand(u, weights + (Transposed ? j * weights_pitch : j), weights_pitch);
        for (int f = 0; f < C / 16; ++f) {
            b_fragment<T, false> v;                    // (16,16) of columns
            load_operand(v, columns + j * wmma_pitch<C> + 16 * f, wmma_pitch<C>);
            wmma::mma_sync(sum[f], u, v, sum[f]);
        }
    }
}

// Where this thread's numbers of a fragment lie: the row of each.
template <class T>
struct fragment_rows {
    unsigned rows = 0; // four bits each

    __device__ explicit fragment_rows(float* room) { // room (16, 16) of the warp's
        const int lane = int(threadIdx.x) % 32;
        for (int e = lane; e < 256; e += 32) room[e / 16 * scores_pitch + e % 16] = float(e / 16);
        __syncwarp();
        c_fragment<T> f;
        wmma::load_matrix_sync(f, room, scores_pitch, wmma::mem_row_major);
        for (int e = 0; e < 8; ++e) rows |= unsigned(f.x[e]) << 4 * e;
        __syncwarp();
    }
    // Rows of sum, times factors (16).
    template <int F>
    __device__ void scale(c_fragment<T> (&sum)[F], const float* factors) const {
        float by[8];
        for (int e = 0; e < 8; ++e) by[e] = factors[rows >> 4 * e & 15];
        for (int f = 0; f < F; ++f)
            for (int e = 0; e < 8; ++e) sum[f].x[e] *= by[e];
    }
};

// A warp's sum (16,C), rounded, to D elements of `exist` rows at `to`, by way of its room (16,64).
template <int C, class T>
__device__ void store_sum(c_fragment<T> (&sum)[C / 16], float factor, T* to, size_t stride,
                          int exist, int D, float* room) {
    constexpr int width = C < 64 ? C : 64;
    const bool vectors = aligned_to_four(to, stride);
    for (int c0 = 0; c0 < C; c0 += width) {
        for (int f = 0; f < width / 16; ++f)
            wmma::store_matrix_sync(room + 16 * f, sum[c0 / 16 + f], scores_pitch,
                                    wmma::mem_row_major);
        __syncwarp();
        for (int e = int(threadIdx.x) % 32; e < 16 * (width / 4); e += 32) {
            const int row = e / (width / 4), c = e % (width / 4) * 4;
            if (row >= exist) continue;
            float x[4];
            load_four(x, room + row * scores_pitch + c, 4, true);
            for (float& y : x) y *= factor;
            store_four(to + size_t(row) * stride + c0 + c, x, D - c0 - c, vectors);
        }
        __syncwarp(); // before the next columns overwrite these
    }
}

template <class T, int C>
constexpr size_t attention_wmma_bytes() {
    constexpr size_t tiles = 3 * wmma_tile<C> * sizeof(T);
    constexpr size_t warps = 4 * 16 * (scores_pitch * sizeof(float) + weights_pitch * sizeof(T) +
                                       sizeof(float));
    constexpr size_t plain = attention_forward_floats<C>() * sizeof(float);
    return tiles + warps > plain ? tiles + warps : plain;
}

template <class T, int C>
__global__ void __launch_bounds__(128, 2) attention_wmma_kernel(attention_args<T> x,
                                                                dropout_mask given) {
    const dropout_mask mask = given.placed();
    if constexpr (!has_tensor_cores<T>) {
        attention_forward_block<C>(x, mask);
    } else {
        T* const q = dynamic_shared<T>();              // (64,C)
        T* const k = q + wmma_tile<C>;                 // (64,C)
        T* const v = k + wmma_tile<C>;                 // (64,C)
        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, D = x.head_dim;
        const int row = lane % 16, half = lane / 16;   // of the warp's 16 rows, of 2 x 32 columns
        float* const room = reinterpret_cast<float*>(v + wmma_tile<C>); // what each warp has
        float* const scores = room + warp * 16 * scores_pitch;                  // (16,64)
        float* const factors = room + 4 * 16 * scores_pitch + warp * 16;        // (16)
        T* const weights = reinterpret_cast<T*>(room + 4 * 16 * (scores_pitch + 1)) +
                           warp * 16 * weights_pitch;                           // (16,64)
        const int i0 = int(gridDim.x - 1 - blockIdx.x) * wmma_rows; // the longest rows first
        const int h = int(blockIdx.y), b = int(blockIdx.z), i = i0 + 16 * warp + row;
        const int exist = x.Tq - i0 < wmma_rows ? x.Tq - i0 : wmma_rows;
        const int end = x.seen(i0 + exist - 1), seen = x.seen(i);
        const float scale = x.scale * log2_e;
        const fragment_rows<T> rows(scores);

        const auto fetch = [&](T* tile, const T* from, int j0) {
            if (j0 < end)
                fetch_rows<C>(tile, from + x.kv_at(b, j0, h), x.kv_stride, x.Tk - j0, D);
            close_copies();
        };
        if (end > 0) fetch_rows<C>(q, x.q + x.q_at(b, i0, h), x.q_stride, exist, D);
        fetch(k, x.k, 0);
        fetch(v, x.v, 0);
        c_fragment<T> o[C / 16];                       // (16,C)
        for (auto& f : o) wmma::fill_fragment(f, 0.0f);
        float m = -infinity, l = 0;                    // of the row; l: of this thread's half
        for (int j0 = 0; j0 < end; j0 += wmma_rows) {
            wait_copies<1>();
            __syncthreads(); // keys are there
            warp_scores<C>(scores, q + 16 * warp * wmma_pitch<C>, k, D);
            __syncthreads(); // all have read them
            fetch(k, x.k, j0 + wmma_rows);
            float s[8][4], top = m;                    // (32) of the row
            for (int g = 0; g < 8; ++g) {
                const int j = 32 * half + 4 * g;
                load_four(s[g], scores + row * scores_pitch + j, 4, true);
                for (int c = 0; c < 4; ++c) {
                    s[g][c] = j0 + j + c < seen ? s[g][c] * scale : -infinity;
                    top = fmaxf(top, s[g][c]);
                }
            }
            top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 16));
            const float from = top == -infinity ? 0.0f : top, before = exp2f(m - from);
            m = top;
            l *= before;
            for (int g = 0; g < 8; ++g) {
                const int j = 32 * half + 4 * g;
                random4 w{};
                if (x.drop.p > 0) w = four_words(mask, b, x.element(h, i, j0 + j));
                for (int c = 0; c < 4; ++c) {
                    l += s[g][c] = exp2f(s[g][c] - from);
                    if (x.drop.p > 0) s[g][c] = mask.apply(s[g][c], w.x[c]);
                }
                store_four(weights + row * weights_pitch + j, s[g], 4, true);
            }
            if (half == 0) factors[row] = before;
            wait_copies<1>();
            __syncthreads(); // values are there; and this warp's weights and factors
            rows.scale(o, factors);
            add_products<C, false>(o, weights, v, end - j0);
            __syncthreads(); // all have read values
            fetch(v, x.v, j0 + wmma_rows);
        }
        wait_copies<0>();
        l += __shfl_xor_sync(0xFFFFFFFFu, l, 16);
        if (half == 0) {
            factors[row] = l == 0 ? 0.0f : 1.0f / l;
            if (i < x.Tq && x.lse)
                x.lse[x.lse_at(b, i, h)] = l == 0 ? -infinity : m * ln_2 + logf(l);
        }
        __syncwarp();
        rows.scale(o, factors);
        store_sum<C>(o, 1.0f, x.out + x.out_at(b, i0 + 16 * warp, h), x.out_stride,
                     exist - 16 * warp, D, scores);
    }
}

template <int C, class T>
void launch_attention_wmma(const attention_args<T>& x, cudaStream_t s) {
    launch<attention_wmma_kernel<T, C>>(
        {{unsigned((x.Tq + 63) / 64), unsigned(x.heads), unsigned(x.B)},
         attention_threads,
         attention_wmma_bytes<T, C>(),
         s},
        x, mask_of(x.drop));
}

/// out and lse of q, k, v.
template <class T>
void attention_forward_wmma(attention_args<T> x, cudaStream_t s) {
    static_assert(sizeof(T) == 2, "attention_forward_wmma: __half or __nv_bfloat16");
    x = checked(x);
    if (x.B == 0 || x.Tq == 0 || x.heads == 0) return;
    if (x.head_dim <= 32) return launch_attention_wmma<32>(x, s);
    if (x.head_dim <= 64) return launch_attention_wmma<64>(x, s);
    launch_attention_wmma<128>(x, s);
}

} // namespace mpt::kernels
