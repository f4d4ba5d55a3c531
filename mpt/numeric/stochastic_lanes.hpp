// SPDX-License-Identifier: MIT
/// @file stochastic_lanes.hpp
/// Stochastic rounding of 16 floats, and Philox for 8 counters, by AVX2.   tier 1, needs:
/// numeric/cast_lanes.hpp numeric/rounding.hpp
///
/// Idea     What stochastic.hpp does for one element. Philox multiplies 32 by 32 bits, so a counter
///          takes a lane of 64: 4 a vector, two vectors at a time, the results side by side.
///          16 random bits decide, so 16 bits of fraction are enough: a code is
///          (steps with 16 bits behind the point + r) >> 16, in lanes of 32 bits.
/// Breaks   a NaN is not rounded by the integers: the 16 that have one among them go one by one
/// See      stochastic.hpp, philox.hpp, cast_lanes.hpp, tests/numeric/stochastic_test.cpp
#pragma once
#include "mpt/numeric/cast_lanes.hpp" // floats, magnitudes, packed16, packed8, with_sign_of
#include "mpt/numeric/rounding.hpp"   // bit_layout, bits_of

#include <cstdint>

namespace mpt::lanes {

/// Are there instructions for float -> T, stochastically?
template <class T>
inline constexpr bool draws = false;

#if defined(__AVX2__)
inline __m256i broadcast64(std::uint64_t x) { return _mm256_set1_epi64x((long long)x); }

// One round of Philox for 4 counters, in the low halves of the 64-bit lanes; what the high halves
// hold does not matter, for a multiplication reads the low ones.
struct counters4 {
    __m256i x0, x1, x2, x3;

    void round(__m256i key0, __m256i key1) {
        const __m256i p0 = _mm256_mul_epu32(x0, broadcast64(0xD2511F53));
        const __m256i p1 = _mm256_mul_epu32(x2, broadcast64(0xCD9E8D57));
        x0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(x1, key0));
        x1 = p1;
        x2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(x3, key1));
        x3 = p0;
    }
};

/// The four words of counters n to n + 7 (n a multiple of 8), a vector for each word. step and use
/// are the upper half of the counter.
struct words8 {
    __m256i x[4];
};
inline words8 philox8(std::uint64_t n, std::uint32_t step, std::uint32_t use, std::uint64_t seed) {
    const __m256i high = broadcast64(n >> 32), third = broadcast64(step), fourth = broadcast64(use);
    const __m256i low = broadcast64(std::uint32_t(n));
    counters4 even = {_mm256_or_si256(low, _mm256_setr_epi64x(0, 2, 4, 6)), high, third, fourth};
    counters4 odd = {_mm256_or_si256(low, _mm256_setr_epi64x(1, 3, 5, 7)), high, third, fourth};
    std::uint32_t key0 = std::uint32_t(seed), key1 = std::uint32_t(seed >> 32);
    for (int i = 0; i < 10; ++i) {
        even.round(broadcast64(key0), broadcast64(key1));
        odd.round(broadcast64(key0), broadcast64(key1));
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    const auto side_by_side = [](__m256i e, __m256i o) {
        return _mm256_blend_epi32(e, _mm256_slli_epi64(o, 32), 0xAA);
    };
    return {{side_by_side(even.x0, odd.x0), side_by_side(even.x1, odd.x1),
             side_by_side(even.x2, odd.x2), side_by_side(even.x3, odd.x3)}};
}

/// 16 random bits a lane, for 16 floats.
struct halves {
    __m256i low, high;
};

// ---- bf16: its step is 2^16 of fp32's ----
template <>
inline constexpr bool draws<bf16> = true;

inline __m256i drawn_bf16(__m256 x, __m256i r) {
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(x), r), 16);
}
inline __m256i drawn(floats x, halves r, bf16) {
    return packed16(drawn_bf16(x.low, r.low), drawn_bf16(x.high, r.high));
}

// ---- fewer bits of exponent: below the smallest normal number steps stay as they are ----
#if defined(__F16C__)
template <>
inline constexpr bool draws<fp16> = true;
template <>
inline constexpr bool draws<e4m3> = true;
template <>
inline constexpr bool draws<e5m2> = true;

// rounding_modes.hpp: in_steps, with 16 bits behind the point, r added. Past `largest`: largest.
//
// Normal numbers are counted by their bits, subnormal ones, whose steps are all equal, by a
// multiplication. Below the smallest normal number the second count is the larger, and it is made
// to end there: so the larger one is right on either side.
template <class T>
inline __m256i drawn_magnitude(__m256 x, __m256i r, std::uint32_t largest) {
    using to = bit_layout<T::exponent_bits, T::mantissa_bits>;
    constexpr int down = to::dropped - 16; // bits too many behind the point; fp16: -3
    const __m256i a = magnitudes(x);
    const __m256 steps =
        _mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_set1_ps(0x1p16f / T::min_subnormal));
    const __m256i subnormal = _mm256_min_epi32(_mm256_cvttps_epi32(steps), // too large: negative
                                               _mm256_set1_epi32(to::min_normal << 16));
    __m256i normal = _mm256_sub_epi32(a, _mm256_set1_epi32(to::rebias));
    if constexpr (down >= 0) {
        normal = _mm256_srai_epi32(normal, down);
    } else { // what would not fit when shifted up: 0, or twice the largest power of two
        normal = _mm256_max_epi32(normal, _mm256_setzero_si256());
        normal = _mm256_min_epi32(normal, _mm256_set1_epi32(to::infinity << to::dropped));
        normal = _mm256_slli_epi32(normal, -down);
    }
    const __m256i sum = _mm256_add_epi32(_mm256_max_epi32(normal, subnormal), r);
    return _mm256_min_epi32(_mm256_srli_epi32(sum, 16), _mm256_set1_epi32(largest));
}
template <class T>
inline __m128i drawn_fp8(floats x, halves r) {
    return packed8(with_sign_of(x.low, drawn_magnitude<T>(x.low, r.low, T::max_code)),
                   with_sign_of(x.high, drawn_magnitude<T>(x.high, r.high, T::max_code)));
}
inline __m128i drawn(floats x, halves r, e4m3) { return drawn_fp8<e4m3>(x, r); }
inline __m128i drawn(floats x, halves r, e5m2) { return drawn_fp8<e5m2>(x, r); }

inline __m256i drawn_fp16(__m256 x, __m256i r) {
    const __m256i code = drawn_magnitude<fp16>(x, r, 0x7C00);
    const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(x), 16);
    return _mm256_or_si256(code, _mm256_and_si256(upper, _mm256_set1_epi32(0x8000)));
}
inline __m256i drawn(floats x, halves r, fp16) {
    return packed16(drawn_fp16(x.low, r.low), drawn_fp16(x.high, r.high));
}
#endif // F16C
#endif // AVX2

} // namespace mpt::lanes
