// SPDX-License-Identifier: MIT
/// @file matmul_wmma.cuh
/// The fifth step of the matrix product: tensor cores. And matmul(), which chooses. tier 3, needs:
/// kernels/async_copy.cuh kernels/four.cuh kernels/launch.cuh kernels/matmul.cuh
/// kernels/scalar.cuh kernels/tensor_core.cuh
///
/// Idea     Changed: the sums are made by tensor cores, 4096 products in one instruction of a warp.
///          They are so fast that the rest must hide: a warp owns 64x64 of c, so that each fragment
///          read from shared memory is used four times, and tiles are on their way from memory two
///          rounds before they are needed. A matrix that ends inside a tile is continued by zeros.
/// Costs    60 KB of shared memory a block of 128 threads (tiles of 128), 30 KB (of 64)
/// Breaks   rows that do not begin on 16 bytes are fetched one element at a time, several times
///          slower: pad leading dimensions to 8 (16 bits) or 4 (float)
/// Source   Markidis et al. 2018, NVIDIA tensor core programmability (arXiv:1803.04014)
/// See      kernels/matmul.cuh, tests/kernels/matmul_wmma_test.cpp
#pragma once
#include "mpt/kernels/async_copy.cuh"  // copy_16, close_copies, wait_copies
#include "mpt/kernels/four.cuh"        // load_four, store_four, aligned_to_four
#include "mpt/kernels/launch.cuh"      // launch, dynamic_shared, __syncthreads
#include "mpt/kernels/matmul.cuh"      // matmul_args, with_leading, tiles_of, matmul_registers
#include "mpt/kernels/scalar.cuh"      // from_float
#include "mpt/kernels/tensor_core.cuh" // a_fragment, b_fragment, c_fragment, load_operand

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mpt::kernels {

// A tile of an operand in shared memory: Lines rows of a (or columns of b), 64 bytes of k each, as
// they lie in memory: (Lines, depth) where k runs on, else (depth, Lines). 16 bytes more a row:
// eight rows, which a fragment's load reads at once, then begin in eight different sixteens of the
// 32 banks.
template <class T, int Lines, bool AlongK>
struct operand_tile {
    static constexpr int chunk = 16 / int(sizeof(T)); // elements of a copy
    static constexpr int depth = 4 * chunk;           // of k
    static constexpr int length = AlongK ? depth : Lines, rows = AlongK ? Lines : depth;
    static constexpr int pitch = length + chunk;
    static constexpr int size = rows * pitch; // elements

    // Does every chunk of every row lie on 16 bytes?
    static __device__ bool whole(const T* from, int ld) {
        return ld % chunk == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
    }

    // The block orders its part of the tile whose first line and k are given. Not `whole`: it
    // fetches them itself.
    static __device__ void fetch(T* tile, const T* from, int ld, bool whole, int line0, int lines,
                                 int p0, int k) {
        constexpr int in_row = length / chunk;
        for (int c = int(threadIdx.x); c < rows * in_row; c += int(blockDim.x)) {
            const int row = c / in_row, column = c % in_row * chunk;
            const int i = (AlongK ? line0 : p0) + row, j = (AlongK ? p0 : line0) + column;
            const int left = i < (AlongK ? lines : k) ? (AlongK ? k : lines) - j : 0;
            const int n = left < 0 ? 0 : left < chunk ? left : chunk; // elements that exist
            T* const to = tile + row * pitch + column;
            const T* const at = n > 0 ? from + size_t(i) * ld + j : from;
            if (whole)
                copy_16(to, at, n * int(sizeof(T)));
            else
                for (int e = 0; e < chunk; ++e) to[e] = e < n ? at[e] : from_float<T>(0.0f);
        }
    }
};

inline constexpr int wmma_stages = 3; // tiles in shared memory: one in use, two on their way

template <class T, int Tile, bool AT, bool BT>
constexpr size_t matmul_wmma_shared() {
    return wmma_stages * sizeof(T) *
           (operand_tile<T, Tile, !AT>::size + operand_tile<T, Tile, BT>::size);
}

// Four warps, two by two, each with a quarter of the block's (Tile, Tile) of c.
template <class T, int Tile, bool AT, bool BT>
__global__ void __launch_bounds__(128, 2) matmul_wmma_kernel(matmul_args<T> x) {
    // Blocks take tiles down eight rows, then the next column: blocks that run at the same time
    // share rows of a and columns of b in the cache.
    constexpr int together = 8;
    const int across = (x.n + Tile - 1) / Tile, down = (x.m + Tile - 1) / Tile;
    const int block = int(blockIdx.x), first = block / (together * across) * together;
    const int rows = down - first < together ? down - first : together;
    const int in_group = block % (together * across);
    const int i0 = (first + in_group % rows) * Tile, j0 = in_group / rows * Tile;

    if constexpr (!has_tensor_cores<T>) { // an old card: every element by itself
        for (int e = int(threadIdx.x); e < Tile * Tile; e += int(blockDim.x)) {
            const int i = i0 + e / Tile, j = j0 + e % Tile;
            float sum = 0;
            if (i >= x.m || j >= x.n) continue;
            for (int p = 0; p < x.k; ++p) sum += a_at(x, i, p) * b_at(x, p, j);
            store_c(x, i, j, sum);
        }
    } else {
        using a_tile = operand_tile<T, Tile, !AT>;
        using b_tile = operand_tile<T, Tile, BT>;
        constexpr int depth = a_tile::depth, width = Tile / 2, F = width / 16;
        T* const a = dynamic_shared<T>();                  // (3, a_tile)
        T* const b = a + wmma_stages * a_tile::size;       // (3, b_tile)
        const bool a_whole = a_tile::whole(x.a, x.lda), b_whole = b_tile::whole(x.b, x.ldb);
        const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
        const int wi = warp / 2 * width, wj = warp % 2 * width; // of the warp, in the tile

        const auto fetch = [&](int stage, int p0) {
            if (p0 < x.k) {
                a_tile::fetch(a + stage * a_tile::size, x.a, x.lda, a_whole, i0, x.m, p0, x.k);
                b_tile::fetch(b + stage * b_tile::size, x.b, x.ldb, b_whole, j0, x.n, p0, x.k);
            }
            close_copies(); // an empty group too: wait_copies counts groups
        };

        c_fragment<T> sum[F][F];                           // (width, width) of c
        for (int i = 0; i < F; ++i)
            for (int j = 0; j < F; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
        fetch(0, 0);
        fetch(1, depth);
        for (int p0 = 0, stage = 0; p0 < x.k; p0 += depth, stage = (stage + 1) % wmma_stages) {
            wait_copies<1>(); // this thread's part of the tile is there ...
            __syncthreads();  // ... and everybody's; and all have left the tile that comes next
            fetch((stage + 2) % wmma_stages, p0 + 2 * depth);
            const T* const at = a + stage * a_tile::size;
            const T* const bt = b + stage * b_tile::size;
            for (int p = 0; p < depth; p += fragment_depth<T>) {
                a_fragment<T, AT> u[F];                    // (width, 16) of a
                b_fragment<T, BT> v[F];                    // (16, width) of b
                for (int f = 0; f < F; ++f) {
                    const int i = wi + 16 * f, j = wj + 16 * f;
                    load_operand(u[f], at + (AT ? p * a_tile::pitch + i : i * a_tile::pitch + p),
                                 a_tile::pitch);
                    load_operand(v[f], bt + (BT ? j * b_tile::pitch + p : p * b_tile::pitch + j),
                                 b_tile::pitch);
                }
                for (int i = 0; i < F; ++i)
                    for (int j = 0; j < F; ++j) wmma::mma_sync(sum[i][j], u[i], v[j], sum[i][j]);
            }
        }

        // Only a store tells which element is where: 16 rows at a time by way of shared memory.
        wait_copies<0>();
        __syncthreads(); // the tiles are done with
        constexpr int pitch = width + 4;
        float* const room = dynamic_shared<float>() + warp * 16 * pitch; // (16, width)
        const bool vectors = aligned_to_four(x.c, size_t(x.ldc)) &&
                             (!x.bias || aligned_to_four(x.bias, 4));
        for (int f = 0; f < F; ++f) {
            for (int j = 0; j < F; ++j)
                wmma::store_matrix_sync(room + 16 * j, sum[f][j], pitch, wmma::mem_row_major);
            __syncwarp();
            for (int e = lane; e < 16 * width / 4; e += 32) {
                const int r = e / (width / 4), s = e % (width / 4) * 4;
                const int i = i0 + wi + 16 * f + r, j = j0 + wj + s;
                if (i >= x.m || j >= x.n) continue;
                T* const c = x.c + size_t(i) * x.ldc + j;
                float y[4], more[4];
                load_four(y, room + r * pitch + s, 4, true);
                if (x.bias) {
                    load_four(more, x.bias + j, x.n - j, vectors);
                    for (int q = 0; q < 4; ++q) y[q] += more[q];
                }
                if (x.accumulate) {
                    load_four(more, c, x.n - j, vectors);
                    for (int q = 0; q < 4; ++q) y[q] += more[q];
                }
                store_four(c, y, x.n - j, vectors);
            }
            __syncwarp(); // before the next rows overwrite these
        }
    }
}

template <class T, int Tile, bool AT, bool BT>
void launch_matmul_wmma(const matmul_args<T>& x, cudaStream_t s) {
    constexpr size_t tiles = matmul_wmma_shared<T, Tile, AT, BT>();
    constexpr size_t rooms = 4 * 16 * (Tile / 2 + 4) * sizeof(float);
    launch<matmul_wmma_kernel<T, Tile, AT, BT>>(
        {tiles_of(x.m, Tile) * tiles_of(x.n, Tile), 128, tiles > rooms ? tiles : rooms, s}, x);
}

template <class T, int Tile>
void launch_matmul_wmma(const matmul_args<T>& x, cudaStream_t s) {
    if (x.a_transposed && x.b_transposed) return launch_matmul_wmma<T, Tile, true, true>(x, s);
    if (x.a_transposed) return launch_matmul_wmma<T, Tile, true, false>(x, s);
    if (x.b_transposed) return launch_matmul_wmma<T, Tile, false, true>(x, s);
    launch_matmul_wmma<T, Tile, false, false>(x, s);
}

/// Step 5. Floats are multiplied as tf32, whatever x.tf32 says.
template <class T>
void matmul_wmma(matmul_args<T> x, cudaStream_t s) {
    if (x.m == 0 || x.n == 0) return;
    matmul_args<T> y = with_leading(x);
    y.tf32 = true; // for a card that has no tensor cores for it
    if (size_t(tiles_of(x.m, 128)) * tiles_of(x.n, 128) >= 128) // enough for a GPU's processors
        launch_matmul_wmma<T, 128>(y, s);
    else
        launch_matmul_wmma<T, 64>(y, s);
}

/// The fastest step that gives what is asked: tensor cores, for float only with tf32.
template <class T>
void matmul(matmul_args<T> x, cudaStream_t s) {
    if (std::is_same_v<T, float> && !x.tf32)
        matmul_registers(x, s);
    else
        matmul_wmma(x, s);
}

} // namespace mpt::kernels
