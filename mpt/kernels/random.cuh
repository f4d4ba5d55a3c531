// SPDX-License-Identifier: MIT
/// @file random.cuh
/// Random numbers by address, on the device: Philox.                       tier 3, needs:
/// kernels/scalar.cuh
///
/// Idea     The generator of base/philox.hpp, bit for bit: a thread computes the numbers of its own
///          elements from (seed, step, element), so no state is kept and no order matters. And the
///          rounding that needs them: numeric/stochastic.hpp.
/// Formula  philox: ten rounds;  stochastic: code.fraction + r / 2^32, cut off behind the point
/// Costs    20 wide multiplications for 4 words: for one word an element more than AdamW's own
///          arithmetic. So a thread takes the elements that share a counter (adamw.cuh)
/// Source   Salmon, Moraes, Dror, Shaw 2011 (Philox); Gupta et al. 2015, arXiv:1502.02551
/// See      dropout.cuh, adamw.cuh, tests/kernels/random_test.cpp
#pragma once
#include "mpt/kernels/scalar.cuh" // from_float, is_finite

namespace mpt::kernels {

struct random4 {
    std::uint32_t x[4];
};

/// Philox4x32-10 of a counter under a key.
__device__ inline random4 philox(random4 c, std::uint32_t key0, std::uint32_t key1) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t(0xD2511F53) * c.x[0];
        const std::uint64_t p1 = std::uint64_t(0xCD9E8D57) * c.x[2];
        c = random4{{std::uint32_t(p1 >> 32) ^ c.x[1] ^ key0, std::uint32_t(p1),
                     std::uint32_t(p0 >> 32) ^ c.x[3] ^ key1, std::uint32_t(p0)}};
        key0 += 0x9E3779B9; // golden ratio
        key1 += 0xBB67AE85; // sqrt(3) - 1
    }
    return c;
}

/// The counter of group g of an array that is rounded: in stochastic rounding 8 elements share it,
/// those at distances of 16 in a block of 128. Element e: group e / 128 * 16 + e % 16, half
/// e / 16 % 8.
__device__ inline random4 rounding_counter(std::uint64_t group, std::uint64_t seed,
                                           std::uint32_t step) {
    constexpr std::uint32_t use = 0x5C0A; // sets these numbers apart from dropout's
    return philox({{std::uint32_t(group), std::uint32_t(group >> 32), step, use}},
                  std::uint32_t(seed), std::uint32_t(seed >> 32));
}
/// Half k (0 to 7) of a counter's four words, as the upper 16 bits of r.
__device__ inline std::uint32_t upper_half(const random4& four, int k) {
    return k % 2 == 0 ? four.x[k / 2] << 16 : four.x[k / 2] & 0xFFFF0000u;
}

/// x rounded up in magnitude for a part `fraction` of all r; past the largest number, infinity.
template <class T>
__device__ inline T stochastic(float x, std::uint32_t r) {
    if (!is_finite(x) || std::is_same_v<T, float>) return from_float<T>(x);
    const std::uint32_t a = __float_as_uint(x) & 0x7FFFFFFFu, sign = __float_as_uint(x) ^ a;
    if constexpr (std::is_same_v<T, __nv_bfloat16>) // fp32's exponents, 16 bits behind the point
        return from_float<T>(__uint_as_float(((a + (r >> 16)) & 0xFFFF0000u) | sign));
    // From 2^-14 on 13 bits are behind the point: fp16 is every 2^13th float.
    const int exponent = a >> 23 > 0 ? int(a >> 23) : 1;
    if (exponent >= 113) {
        const std::uint32_t up = std::uint32_t(((std::uint64_t(a) << 19) + r) >> 32) << 13;
        return from_float<T>(__uint_as_float(up | sign));
    }
    // Below, steps stay 2^-24, and one bit more is behind the point for each power of two.
    const std::uint32_t significand = (a & 0x7FFFFFu) | (a >> 23 > 0 ? 0x800000u : 0u);
    const int shift = 126 - exponent;
    const std::uint64_t steps = shift < 56 ? (std::uint64_t(significand) << 32) >> shift : 0;
    const float up = __fmul_rn(float(std::uint32_t((steps + r) >> 32)), 0x1p-24f); // exact
    return from_float<T>(__uint_as_float(__float_as_uint(up) | sign));
}

} // namespace mpt::kernels
