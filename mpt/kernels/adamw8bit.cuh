// SPDX-License-Identifier: MIT
/// @file adamw8bit.cuh
/// AdamW that remembers its moments in 8 bits, on the device.              tier 3, needs:
/// kernels/adamw.cuh kernels/block_reduce.cuh kernels/random.cuh kernels/scalar.cuh
///
/// Idea     A block of 256 threads takes a block of 256 moments: looks them up, moves the weights
///          as adamw.cuh does, finds the new largest magnitude, and rounds to codes again. fp32
///          moments exist in registers only. The nearest code is found by bisection of the 128 or
///          255 middles between entries, which lie in shared memory.
/// Formula  m = map[code] absmax;  code = nearest entry to m / absmax, of two that nearer 0;
///          m keeps its sign
/// Costs    16 bytes a parameter = 2 * 4 (p) + 2 * 2.03 (m, v) + 4 (g and weights), 9 comparisons
///          a code in place of numeric/dynamic_map.hpp's table of buckets. Of the cache: 5.5 KB of
///          maps a block of threads, absmax once a warp
/// Breaks   a middle rounded up: a number between it and the true one gets the wrong entry; a block
///          whose new moments are not finite has no codes: it stays as it was, and is counted
/// Source   Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861
/// See      train/adam8bit.hpp and numeric/dynamic_map.hpp (the same bits), adamw.cuh,
///          tests/kernels/adamw8bit_test.cpp
#pragma once
#include "mpt/kernels/adamw.cuh"        // adamw_numbers, adamw_step
#include "mpt/kernels/block_reduce.cuh" // block_max
#include "mpt/kernels/random.cuh"       // rounding_counter, upper_half, stochastic
#include "mpt/kernels/scalar.cuh"       // to_float, from_float, is_finite, blocks_for

namespace mpt::kernels {

constexpr unsigned code_block = 256; // moments that share an absmax; threads of a block

template <class T, class G>
struct adamw8bit_args {
    adamw_args<T, G> rest; // all but m and v, which are not looked at
    std::uint8_t* m_codes = nullptr; // (n), of the signed map
    std::uint8_t* v_codes = nullptr; // (n), of the unsigned map
    float* m_absmax = nullptr;       // one a block of 256
    float* v_absmax = nullptr;
    const float* signed_map = nullptr;   // (256), ascending, 0 at 127: signed_map.value
    const float* unsigned_map = nullptr; // (256), ascending, 0 at 0: unsigned_map.value
    size_t cell = 0; // elements of the first block's 256 that lie before the first: it is shorter
    unsigned* not_finite = nullptr; // on the device, not null: counts blocks that stayed as is
};

/// Entries from 0 up, and the last number that is nearest to each. Of the signed map those below 0
/// mirror those above, but for -1, which is no entry.
struct code_table {
    float value[256];
    float end[256];
};

/// All threads of a block: a map of `largest` entries above its `zero`.
__device__ inline void read_map(code_table& table, const float* map, int zero, int largest) {
    for (int k = int(threadIdx.x); k < 256; k += int(blockDim.x)) {
        table.value[k] = map[k];
        if (k > largest) continue;
        table.end[k] = infinity;
        if (k == largest) continue;
        // the sum of two floats that are 2^23 apart at most is exact in fp64
        const double middle = (double(map[zero + k]) + double(map[zero + k + 1])) / 2;
        const float last = float(middle);
        table.end[k] =
            double(last) > middle ? __uint_as_float(__float_as_uint(last) - 1) : last;
    }
    __syncthreads();
}

/// The entry nearest to a >= 0, counted from that of 0 on: the first whose end is not below a.
__device__ inline int nearest(const code_table& table, float a, int largest) {
    int low = 0, high = largest;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a <= table.end[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
__device__ inline std::uint8_t signed_code(const code_table& table, float q) {
    const int k = nearest(table, fabsf(q), 128);
    if (!(q < 0)) return std::uint8_t(127 + k);
    return std::uint8_t(127 - (k > 127 ? 127 : k < 1 ? 1 : k)); // below 0 stays below 0
}
__device__ inline std::uint8_t unsigned_code(const code_table& table, float q) {
    return std::uint8_t(q < 0 ? 0 : nearest(table, q, 255));
}

template <class T, class G>
__global__ void adamw8bit_kernel(adamw8bit_args<T, G> a, size_t blocks) {
    __shared__ code_table signed_table, unsigned_table;
    if (a.rest.skips()) return;
    read_map(signed_table, a.signed_map, 127, 128);
    read_map(unsigned_table, a.unsigned_map, 0, 255);
    const adamw_numbers c = a.rest.numbers_now();
    for (size_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        // this thread's element, and whether there is one: threads without one still meet barriers
        const size_t place = block * code_block + threadIdx.x;
        const bool mine = place >= a.cell && place - a.cell < a.rest.n;
        const size_t i = mine ? place - a.cell : 0;
        float p = 0, m = 0, v = 0;
        if (mine) {
            m = __fmul_rn(signed_table.value[a.m_codes[i]], a.m_absmax[block]);
            v = __fmul_rn(unsigned_table.value[a.v_codes[i]], a.v_absmax[block]);
            p = a.rest.p ? a.rest.p[i] : to_float(a.rest.weights[i]);
            p = adamw_step(p, m, v, to_float(a.rest.g[i]), c);
        }
        // Magnitudes as integers are in order, NaN above infinity: none is passed over.
        const unsigned m_max = block_max(__float_as_uint(fabsf(m)), 0u);
        const unsigned v_max = block_max(__float_as_uint(fabsf(v)), 0u);
        if (m_max >= 0x7F800000u || v_max >= 0x7F800000u) { // all threads alike
            if (a.not_finite && threadIdx.x == 0) atomicAdd(a.not_finite, 1u);
            continue;
        }
        if (threadIdx.x == 0) { // read by all above, before block_max's barriers
            a.m_absmax[block] = __uint_as_float(m_max);
            a.v_absmax[block] = __uint_as_float(v_max);
        }
        if (!mine) continue;
        const float m_unit = m_max > 0 ? __uint_as_float(m_max) : 1.0f;
        const float v_unit = v_max > 0 ? __uint_as_float(v_max) : 1.0f;
        a.m_codes[i] = signed_code(signed_table, __fdiv_rn(m, m_unit));
        a.v_codes[i] = unsigned_code(unsigned_table, __fdiv_rn(v, v_unit));
        if (a.rest.p) {
            a.rest.p[i] = p;
            if (static_cast<const void*>(a.rest.weights) != a.rest.p)
                a.rest.weights[i] = from_float<T>(p);
        } else {
            const std::uint64_t e = a.rest.first + i;
            const random4 r =
                rounding_counter(e / 128 * 16 + e % 16, a.rest.rounding_seed, c.t);
            a.rest.weights[i] = stochastic<T>(p, upper_half(r, int(e / 16 % 8)));
        }
    }
}

/// Blocks of moments that n elements make, the first of which lies `cell` deep in its own.
inline size_t code_blocks(size_t n, size_t cell) {
    return n == 0 ? 0 : (cell + n + code_block - 1) / code_block;
}

/// One step of n weights of one tensor, or none where found_inf is set.
template <class T, class G>
void adamw8bit(const adamw8bit_args<T, G>& a, cudaStream_t stream) {
    const size_t blocks = code_blocks(a.rest.n, a.cell);
    if (blocks == 0) return;
    // 4 blocks of moments each at least, so that the tables are not made for one alone
    launch<adamw8bit_kernel<T, G>>({blocks_for(blocks, 4), code_block, 0, stream}, a, blocks);
}

} // namespace mpt::kernels
