// SPDX-License-Identifier: MIT
/// @file matmul.cuh
/// A matrix product in four steps, each faster than the one before.        tier 3, needs:
/// kernels/four.cuh kernels/launch.cuh kernels/scalar.cuh
///
/// Idea     All four compute the same; what changes is how often an element is fetched, and from
///          where. naive: a thread an element of c, all from memory, neighbours far apart.
///          coalesced: neighbours in a warp read neighbours in memory. tiled: a block brings
///          tiles into shared memory, so that memory is read 32 times less. registers: a thread
///          sums a tile of c in registers, so that shared memory is read up to 8 times less.
/// Formula  c(m,n) = round( sum over k of a(m,k) b(k,n) + bias(n) + c(m,n) ), sums in fp32, k
///          ascending; bias and the old c as asked. tf32: a and b rounded to 10 bits before
/// Costs    2 m n k operations. Elements read from memory, a thousand for each of c: k = 1000:
///          2 naive and coalesced, 1/16 tiled, 1/64 registers
/// Breaks   c that overlaps a or b; leading dimensions shorter than a row; in step 2 more than
///          524,280 rows (step 1: columns; step 4: 8 million rows), past which a grid has no blocks
/// Source   Volkov, Demmel 2008, Benchmarking GPUs to tune dense linear algebra
/// See      kernels/matmul_wmma.cuh (tensor cores; matmul(), which chooses), nn/matmul.hpp (the
///          loop), tests/kernels/matmul_test.cpp
#pragma once
#include "mpt/kernels/four.cuh"   // load_four, aligned_to_four
#include "mpt/kernels/launch.cuh" // launch, __global__, threadIdx, cudaStream_t
#include "mpt/kernels/scalar.cuh" // pack, load, store, to_float, from_float

#include <cstddef>
#include <type_traits>

namespace mpt::kernels {

template <class T>
struct matmul_args {
    T* c = nullptr;            // (m,n)
    const T* a = nullptr;      // (m,k), or (k,m) if a_transposed
    const T* b = nullptr;      // (k,n), or (n,k) if b_transposed
    const T* bias = nullptr;   // (n), added to every row; null: none
    int m = 0, n = 0, k = 0;   // k = 0: sums of nothing, so bias (and the old c) alone
    int lda = 0;               // elements from row to row as a lies in memory; 0: no gaps
    int ldb = 0;               // of b
    int ldc = 0;               // of c
    bool a_transposed = false; // a lies as (k,m)
    bool b_transposed = false; // b lies as (n,k), as PyTorch keeps weights
    bool accumulate = false;   // c += the product
    bool tf32 = false;         // float only: round a and b to 10 mantissa bits first
};

/// The same with leading dimensions filled in.
template <class T>
matmul_args<T> with_leading(matmul_args<T> x) {
    if (x.lda == 0) x.lda = x.a_transposed ? x.m : x.k;
    if (x.ldb == 0) x.ldb = x.b_transposed ? x.k : x.n;
    if (x.ldc == 0) x.ldc = x.n;
    return x;
}

/// The nearest of tf32's numbers, ties to even, as numeric/tf32.hpp; NaN and infinity stay.
__device__ inline float nearest_tf32(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7F800000u) == 0x7F800000u) return x;
    return __uint_as_float((bits + 0xFFFu + (bits >> 13 & 1u)) & ~0x1FFFu);
}

template <class T>
__device__ float operand(T x, bool tf32) {
    if constexpr (std::is_same_v<T, float>)
        if (tf32) return nearest_tf32(x);
    return to_float(x);
}

template <class T>
__device__ float a_at(const matmul_args<T>& x, int i, int p) {
    const size_t at = x.a_transposed ? size_t(p) * x.lda + i : size_t(i) * x.lda + p;
    return operand(x.a[at], x.tf32);
}
template <class T>
__device__ float b_at(const matmul_args<T>& x, int p, int j) {
    const size_t at = x.b_transposed ? size_t(j) * x.ldb + p : size_t(p) * x.ldb + j;
    return operand(x.b[at], x.tf32);
}

// The end of every step: what else belongs to the element, and its one rounding.
template <class T>
__device__ void store_c(const matmul_args<T>& x, int i, int j, float sum) {
    T* const c = x.c + size_t(i) * x.ldc + j;
    if (x.bias) sum += to_float(x.bias[j]);
    if (x.accumulate) sum += to_float(*c);
    *c = from_float<T>(sum);
}

// Step 1. A thread an element. Threads side by side in a warp take elements one below the other,
// so each of their reads of a and writes of c fetches a sector of its own.
template <class T>
__global__ void matmul_naive_kernel(matmul_args<T> x) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const int j = int(blockIdx.y * blockDim.y + threadIdx.y);
    if (i >= x.m || j >= x.n) return;
    float sum = 0;
    for (int p = 0; p < x.k; ++p) sum += a_at(x, i, p) * b_at(x, p, j);
    store_c(x, i, j, sum);
}

// Step 2. Changed: threads side by side take elements side by side. A warp now reads one element
// of a for all and 32 neighbours of b.
template <class T>
__global__ void matmul_coalesced_kernel(matmul_args<T> x) {
    const int i = int(blockIdx.y * blockDim.y + threadIdx.y);
    const int j = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= x.m || j >= x.n) return;
    float sum = 0;
    for (int p = 0; p < x.k; ++p) sum += a_at(x, i, p) * b_at(x, p, j);
    store_c(x, i, j, sum);
}

inline constexpr int matmul_tile = 32;

// Step 3. Changed: the block fetches 32x32 tiles of a and b once, together, and each thread reads
// its row and column from shared memory. Threads past the edge of c fetch too: they must not leave
// before the barriers. One column more than the tile: reading down a tile of a transposed operand
// would else meet one bank 32 times.
template <class T>
__global__ void __launch_bounds__(matmul_tile* matmul_tile) matmul_tiled_kernel(matmul_args<T> x) {
    __shared__ float a[matmul_tile][matmul_tile + 1];    // (32,32) of a: row, k
    __shared__ float b[matmul_tile][matmul_tile + 1];    // (32,32) of b: k, column
    const int across = int(threadIdx.x), down = int(threadIdx.y);
    const int i0 = int(blockIdx.y) * matmul_tile, j0 = int(blockIdx.x) * matmul_tile;
    float sum = 0;
    for (int p0 = 0; p0 < x.k; p0 += matmul_tile) {
        // Whichever way the operand lies, threads side by side read side by side.
        const int ai = x.a_transposed ? across : down, ap = x.a_transposed ? down : across;
        const int bp = x.b_transposed ? across : down, bj = x.b_transposed ? down : across;
        a[ai][ap] = i0 + ai < x.m && p0 + ap < x.k ? a_at(x, i0 + ai, p0 + ap) : 0.0f;
        b[bp][bj] = p0 + bp < x.k && j0 + bj < x.n ? b_at(x, p0 + bp, j0 + bj) : 0.0f;
        __syncthreads();
        for (int p = 0; p < matmul_tile; ++p) sum += a[down][p] * b[p][across];
        __syncthreads(); // before the next tile overwrites this one
    }
    if (i0 + down < x.m && j0 + across < x.n) store_c(x, i0 + down, j0 + across, sum);
}

// Part of step 4: how the 256 threads of a block carry a tile of an operand, `Tile` rows of a (or
// columns of b) by 1024 / Tile of k, to shared memory: four elements each, neighbours in memory.
template <class T, int Tile>
struct tile_carrier {
    static constexpr int depth = 1024 / Tile, pitch = Tile + 4; // of shared memory: (depth, pitch)

    const T* data;     // the operand
    int ld;            // its leading dimension
    bool along_k;      // neighbours in memory are neighbours in k
    bool vectors;      // every group of four lies on its own alignment
    int size;          // rows of a, or columns of b
    int k;
    int line, p;       // of the thread's first element: line of the tile, k of the tile

    __device__ tile_carrier(const T* from, int leading, bool runs_along_k, int lines, int depth_all)
        : data(from), ld(leading), along_k(runs_along_k),
          vectors(aligned_to_four(from, size_t(leading))),
          size(lines), k(depth_all) {
        const int t = int(threadIdx.x), warp = t / 32;
        // Along k: a warp takes 16 lines by 2 groups of 4. Its stores, scattered over 4 rows, go to
        // banks line + 16 group, no two alike, since 4 * pitch = 16 modulo 32.
        line = along_k ? t % 16 + 16 * (warp % (Tile / 16)) : t % (Tile / 4) * 4;
        p = along_k ? (t / 16 % 2 + warp / (Tile / 16) * 2) * 4 : t / (Tile / 4);
    }

    __device__ void fetch(float (&x)[4], int line0, int p0, bool tf32) const {
        const int i = line0 + line, q = p0 + p;
        const int left = along_k ? (i < size ? k - q : 0) : (q < k ? size - i : 0);
        load_four(x, data + (along_k ? size_t(i) * ld + q : size_t(q) * ld + i), left, vectors);
        if constexpr (std::is_same_v<T, float>)
            if (tf32)
                for (float& e : x) e = nearest_tf32(e);
    }

    __device__ void put(float* tile, const float (&x)[4]) const { // tile (depth, pitch)
        if (along_k)
            for (int e = 0; e < 4; ++e) tile[(p + e) * pitch + line] = x[e];
        else
            store(tile + p * pitch + line, pack<float, 4>{{x[0], x[1], x[2], x[3]}});
    }
};

// Step 4. Changed: a thread sums R x R elements of c, in groups of 4 x 4. For R products it reads
// R + R numbers of shared memory, in groups of four, and not 2 R R. The next tile is on its way
// from memory while this one is multiplied, and goes into the other of two buffers: one barrier a
// tile. A warp is 4 x 8 threads: its reads are 4 and 8 groups side by side, no bank twice.
template <class T, int R>
__global__ void __launch_bounds__(256, R == 8 ? 2 : 3) matmul_registers_kernel(matmul_args<T> x) {
    constexpr int tile = 16 * R, groups = R / 4;
    using carrier = tile_carrier<T, tile>;
    constexpr int pitch = carrier::pitch, depth = carrier::depth;
    alignas(16) __shared__ float a_tile[2][depth * pitch];            // (depth, tile), twice
    alignas(16) __shared__ float b_tile[2][depth * pitch];            // (depth, tile), twice
    const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
    const int down = warp / 2 * 4 + lane / 8, across = warp % 2 * 8 + lane % 8; // of 16 x 16
    const int i0 = int(blockIdx.y) * tile, j0 = int(blockIdx.x) * tile;
    const carrier a(x.a, x.lda, !x.a_transposed, x.m, x.k), b(x.b, x.ldb, x.b_transposed, x.n, x.k);

    float sum[R][R] = {};                                             // (R, R) of c
    float a_next[4], b_next[4];
    a.fetch(a_next, i0, 0, x.tf32);
    b.fetch(b_next, j0, 0, x.tf32);
    for (int p0 = 0, at = 0; p0 < x.k; p0 += depth, at ^= 1) {
        a.put(a_tile[at], a_next);
        b.put(b_tile[at], b_next);
        __syncthreads(); // the tile is whole; all have left the other buffer, which comes next
        a.fetch(a_next, i0, p0 + depth, x.tf32);
        b.fetch(b_next, j0, p0 + depth, x.tf32);
        for (int p = 0; p < depth; ++p) {
            pack<float, 4> u[groups], v[groups];
            for (int g = 0; g < groups; ++g) {
                u[g] = load<4>(a_tile[at] + p * pitch + 64 * g + 4 * down);
                v[g] = load<4>(b_tile[at] + p * pitch + 64 * g + 4 * across);
            }
            for (int r = 0; r < R; ++r)
                for (int s = 0; s < R; ++s) sum[r][s] += u[r / 4].x[r % 4] * v[s / 4].x[s % 4];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int s = 0; s < R; ++s) {
            const int i = i0 + r / 4 * 64 + 4 * down + r % 4;
            const int j = j0 + s / 4 * 64 + 4 * across + s % 4;
            if (i < x.m && j < x.n) store_c(x, i, j, sum[r][s]);
        }
}

inline unsigned tiles_of(int n, int tile) { return unsigned((n + tile - 1) / tile); }

template <class T>
void matmul_naive(matmul_args<T> x, cudaStream_t s) {
    if (x.m == 0 || x.n == 0) return;
    launch<matmul_naive_kernel<T>>({{tiles_of(x.m, 32), tiles_of(x.n, 8)}, {32, 8}, 0, s},
                                   with_leading(x));
}

template <class T>
void matmul_coalesced(matmul_args<T> x, cudaStream_t s) {
    if (x.m == 0 || x.n == 0) return;
    launch<matmul_coalesced_kernel<T>>({{tiles_of(x.n, 32), tiles_of(x.m, 8)}, {32, 8}, 0, s},
                                       with_leading(x));
}

template <class T>
void matmul_tiled(matmul_args<T> x, cudaStream_t s) {
    if (x.m == 0 || x.n == 0) return;
    constexpr int t = matmul_tile;
    launch<matmul_tiled_kernel<T>>({{tiles_of(x.n, t), tiles_of(x.m, t)}, {t, t}, 0, s},
                                   with_leading(x));
}

/// Tiles of 128 x 128 where there are enough to keep a GPU's multiprocessors busy, else of 64 x 64.
template <class T>
void matmul_registers(matmul_args<T> x, cudaStream_t s) {
    if (x.m == 0 || x.n == 0) return;
    const dim3 large{tiles_of(x.n, 128), tiles_of(x.m, 128)};
    const dim3 small{tiles_of(x.n, 64), tiles_of(x.m, 64)};
    if (size_t(large.x) * large.y >= 128)
        launch<matmul_registers_kernel<T, 8>>({large, 256, 0, s}, with_leading(x));
    else
        launch<matmul_registers_kernel<T, 4>>({small, 256, 0, s}, with_leading(x));
}

} // namespace mpt::kernels
