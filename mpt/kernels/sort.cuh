// SPDX-License-Identifier: MIT
/// @file sort.cuh
/// Positions in the order of their keys, equal ones in the order they had. tier 3, needs:
/// kernels/scalar.cuh kernels/warp_reduce.cuh
///
/// Idea     Counting sort by 8 bits, the low ones first, each pass stable. A tile of 256 keys
///          counts its digits; the counts of all tiles are added up, digit by digit, so that each
///          tile knows where its first of each digit goes; then a key goes as far behind that as
///          there are equal digits before it in its tile. No block waits for another's luck.
/// Formula  place = starts[digit][tile] + number of j < i in the tile with the same digit
/// Costs    a pass: 256 comparisons of shared memory a key, twice; 8 bytes read and written a key,
///          4 a tile and digit. Keys below 2^16 take 2 passes
/// Breaks   places by atomics: as fast, but equal keys come in the order in which threads ran, and
///          sums over them have other bits in each run
/// Source   Knuth, The Art of Computer Programming 3, 5.2 (distribution counting), 5.2.5 (radix)
/// See      embedding.cuh (its user), tests/kernels/sort_test.cpp
#pragma once
#include "mpt/kernels/scalar.cuh"      // blocks_for
#include "mpt/kernels/warp_reduce.cuh" // whole_warp

namespace mpt::kernels {

constexpr int sort_tile = 256; // keys of a block, and digits: a thread for either

/// The sum of the numbers of all threads before this one; *total: of all. The whole block comes, of
/// whole warps.
__device__ inline int sum_before(int x, int* total) {
    __shared__ int of_warp[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int sum = x; // of this and those before it in the warp
    for (unsigned back = 1; back < 32; back *= 2) {
        const int other = __shfl_up_sync(whole_warp, sum, back);
        if (lane >= back) sum += other;
    }
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    int before = 0, all = 0;
    for (unsigned w = 0; w < warps; ++w) {
        before += w < warp ? of_warp[w] : 0;
        all += of_warp[w];
    }
    __syncthreads(); // of_warp may be written again
    *total = all;
    return before + sum - x;
}

/// A key as the sort takes it: what lies outside [0, most) becomes most, and so the last.
__device__ inline int key_of(const int* keys, size_t i, int most) {
    return keys[i] < 0 || keys[i] > most ? most : keys[i];
}
__device__ inline int digit_of(int key, int pass) { return (key >> 8 * pass) & 0xFF; }

/// This block's tile of digits in shared memory; -1 past the end.
__device__ inline void read_tile(int* digits, const int* keys, size_t tile, size_t n, int most,
                                 int pass) {
    const size_t i = tile * sort_tile + threadIdx.x;
    digits[threadIdx.x] = i < n ? digit_of(key_of(keys, i, most), pass) : -1;
    __syncthreads();
}

/// counts (256,tiles): how many keys of a tile have a digit.
template <int threads>
__global__ void count_kernel(int* counts, const int* keys, size_t n, int most, size_t tiles,
                             int pass) {
    __shared__ int digits[threads];
    for (size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        read_tile(digits, keys, tile, n, most, pass);
        int count = 0;
        for (int j = 0; j < threads; ++j) count += digits[j] == int(threadIdx.x);
        counts[threadIdx.x * tiles + tile] = count;
        __syncthreads(); // digits may be written again
    }
}

/// counts become starts: the sums of all before. One block.
template <int threads>
__global__ void starts_kernel(int* counts, size_t n) {
    int carry = 0;
    for (size_t first = 0; first < n; first += threads) {
        const size_t i = first + threadIdx.x;
        int total;
        const int before = sum_before(i < n ? counts[i] : 0, &total);
        if (i < n) counts[i] = carry + before;
        carry += total;
    }
}

/// positions null: the key's own number is its position, as before the first pass.
template <int threads>
__global__ void scatter_kernel(int* to_keys, int* to_positions, const int* keys,
                               const int* positions, const int* starts, size_t n, int most,
                               size_t tiles, int pass) {
    __shared__ int digits[threads];
    for (size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        read_tile(digits, keys, tile, n, most, pass);
        const size_t i = tile * threads + threadIdx.x;
        if (i < n) {
            const int mine = digits[threadIdx.x];
            int rank = 0;
            for (unsigned j = 0; j < threadIdx.x; ++j) rank += digits[j] == mine;
            const size_t to = size_t(starts[size_t(mine) * tiles + tile] + rank);
            to_keys[to] = key_of(keys, i, most);
            to_positions[to] = positions ? positions[i] : int(i);
        }
        __syncthreads(); // digits may be written again
    }
}

struct sorted {
    const int* keys;      // (n), ascending; `most` for those that were none of [0, most)
    const int* positions; // (n), where each was
};

/// Bytes of scratch that sort_positions wants, for any keys.
inline size_t sort_bytes(size_t n) {
    const size_t tiles = (n + sort_tile - 1) / sort_tile;
    return (4 * n + 256 * tiles) * sizeof(int);
}

inline sorted sort_pass(int pass, sorted from, int* to, int* counts, size_t n, int most,
                        cudaStream_t stream) {
    const size_t tiles = (n + sort_tile - 1) / sort_tile;
    const launch_config each_tile{blocks_for(tiles, 1), sort_tile, 0, stream};
    launch<count_kernel<sort_tile>>(each_tile, counts, from.keys, n, most, tiles, pass);
    launch<starts_kernel<1024>>({1, 1024, 0, stream}, counts, 256 * tiles);
    launch<scatter_kernel<sort_tile>>(each_tile, to, to + n, from.keys, from.positions,
                                      static_cast<const int*>(counts), n, most, tiles, pass);
    return {to, to + n};
}

/// Sorts keys[0..n), n < 2^31; the result lies in scratch. Those of [0, most) come in order, then
/// all others.
inline sorted sort_positions(const int* keys, size_t n, int most, void* scratch,
                             cudaStream_t stream) {
    int *const a = static_cast<int*>(scratch), *const b = a + 2 * n, *const counts = b + 2 * n;
    if (n == 0) return {a, b};
    sorted s{keys, nullptr};
    for (int pass = 0; pass < 4 && (pass == 0 || most >> 8 * pass > 0); ++pass)
        s = sort_pass(pass, s, pass % 2 == 0 ? a : b, counts, n, most, stream);
    return s;
}

} // namespace mpt::kernels
