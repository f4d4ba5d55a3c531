// SPDX-License-Identifier: MIT
/// @file dynamic_map.hpp
/// 256 numbers from 1e-7 to 1, about as far apart as they are large.       tier 1, needs:
/// base/error.hpp base/qualifiers.hpp numeric/rounding.hpp
///
/// Idea     An optimizer's moments span seven powers of ten, so equal steps (int8) lose the small
///          ones. This map gives each power of ten its own steps, twice as many as the one below.
///          A block of numbers is stored as codes, indices into the map, and its largest magnitude.
/// Formula  entries of decade i = 0..6: the middles of n equal parts of [0.1, 1], times 10^(i-6);
///          n = 2^i, each with both signs, or 2^(i+1) if unsigned; and 0 and 1; in order.
///          code = nearest entry to q = fp32(x / absmax), of two that nearer 0; x' = entry absmax
/// Costs    1 + 4 / block bytes an element.  Error: |q' - q| <= 0.0071 from .1 up, half if unsigned
/// Breaks   a map of fewer than 256 entries: codes above it read whatever lies behind (NaN).
///          -1 is no entry: a block's most negative number comes back as -0.993 of itself
/// Source   Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861;
///          the entries are those of bitsandbytes, create_dynamic_map
/// See      int8.hpp, train/adam8bit.hpp (its user), tests/numeric/dynamic_map_test.cpp
#pragma once
#include "mpt/base/error.hpp"       // check
#include "mpt/base/qualifiers.hpp"  // MPT_RESTRICT
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, fp32_magnitude, fp32_infinity

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mpt {

/// The map, and what finds the nearest entry without a search: the top bits of a magnitude pick a
/// bucket, so narrow that numbers in it are nearest to one entry or to two; the others say which.
template <bool has_sign>
struct dynamic_map {
    static constexpr int zero = has_sign ? 127 : 0;          // the code of 0
    static constexpr int largest = has_sign ? 128 : 255;     // codes from zero up to that of 1
    static constexpr int shift = 23 - (has_sign ? 6 : 7);    // buckets: 64 or 128 a binade
    static constexpr std::uint32_t rest = (1u << shift) - 1; // the other bits
    static constexpr std::uint32_t low = (127u - 23) << (23 - shift); // of 2^-23, nearest to 0
    static constexpr std::uint32_t high = 127u << (23 - shift);       // of 1

    std::array<float, 256> value{}; // by code, ascending
    // By bucket: code - zero of its first number, << 24, and the rest of the last number with it.
    std::array<std::uint32_t, high - low + 1> buckets{};

    constexpr dynamic_map() {
        int c = zero;
        value[std::size_t(c)] = 0;
        double power = 1e6; // 10^(6-i)
        for (int i = 0; i <= 6; ++i, power /= 10) {
            const int n = has_sign ? 1 << i : 2 << i;
            for (int j = 0; j < n; ++j) { // (0.1 + 0.9 (2j+1) / 2n) / power, in whole numbers
                value[std::size_t(++c)] = float((2 * n + 18 * j + 9) / (20.0 * n * power));
                if (has_sign) value[std::size_t(2 * zero - c)] = -value[std::size_t(c)];
            }
        }
        value[255] = 1;
        std::uint32_t k = 0;
        for (std::uint32_t b = low; b <= high; ++b) {
            while (float_of(b << shift) > end(k)) ++k;
            const bool splits = float_of(b << shift | rest) > end(k);
            buckets[b - low] = k << 24 | (splits ? bits_of(end(k)) & rest : rest);
        }
    }

    /// The largest number that is nearest to entry zero + k.
    constexpr float end(std::uint32_t k) const {
        if (k == largest) return float_of(fp32_infinity);
        const double middle = (double(value[zero + k]) + double(value[zero + k + 1])) / 2; // exact
        const float last = float(middle);
        return double(last) > middle ? float_of(bits_of(last) - 1) : last;
    }

    /// The code of q, a number from -1 to 1. Further away: that of 1 or of the lowest entry.
    /// keep_sign: what is below 0 does not become 0, but the entry next to it.
    constexpr int code(float q, bool keep_sign = false) const {
        const std::uint32_t a = bits_of(q) & fp32_magnitude, at = a >> shift;
        const std::uint32_t bucket = buckets[(at < low ? low : at > high ? high : at) - low];
        const int k = int(bucket >> 24) + ((a & rest) > (bucket & 0xFFFFFF));
        if (!has_sign) return q < 0 ? 0 : k;
        const int down = k > zero ? zero : k < int(keep_sign) ? int(keep_sign) : k;
        return zero + (q < 0 ? -down : k);
    }
};

inline constexpr dynamic_map<true> signed_map;
inline constexpr dynamic_map<false> unsigned_map;

/// The largest magnitude of n numbers. NaN counts as more than infinity.
inline float largest_magnitude(const float* MPT_RESTRICT x, std::size_t n) {
    std::uint32_t largest = 0; // as integers, magnitudes are in order
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t a = bits_of(x[i]) & fp32_magnitude;
        largest = a > largest ? a : largest;
    }
    return float_of(largest);
}

#if defined(__AVX2__)
namespace lanes {

/// code(q, true) of 8 numbers, as code() has it; -1 instead of 0 for what is below -0.996.
template <bool has_sign>
__m256i codes8(const dynamic_map<has_sign>& map, __m256 q) {
    using M = dynamic_map<has_sign>;
    const __m256 a = _mm256_and_ps(q, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)));
    const __m256i bits = _mm256_castps_si256(a), rest = _mm256_set1_epi32(M::rest);
    const __m256i low = _mm256_set1_epi32(M::low), high = _mm256_set1_epi32(M::high);
    __m256i at = _mm256_srli_epi32(bits, M::shift);
    at = _mm256_sub_epi32(_mm256_min_epi32(_mm256_max_epi32(at, low), high), low);
    const __m256i bucket =
        _mm256_i32gather_epi32(reinterpret_cast<const int*>(map.buckets.data()), at, 4);
    const __m256i past = _mm256_cmpgt_epi32(_mm256_and_si256(bits, rest),
                                            _mm256_and_si256(bucket, _mm256_set1_epi32(0xFFFFFF)));
    const __m256i k = _mm256_sub_epi32(_mm256_srli_epi32(bucket, 24), past);
    const __m256i negative = _mm256_castps_si256(_mm256_cmp_ps(q, _mm256_setzero_ps(), _CMP_LT_OQ));
    if (!has_sign) return _mm256_andnot_si256(negative, k);
    const __m256i far = _mm256_max_epi32(k, _mm256_srli_epi32(negative, 31)); // 1 where k was 0
    const __m256i signed_k = _mm256_sub_epi32(_mm256_xor_si256(far, negative), negative);
    return _mm256_add_epi32(_mm256_set1_epi32(M::zero), signed_k);
}

/// As many elements as go in groups of 16.
template <bool has_sign>
std::size_t quantize(const dynamic_map<has_sign>& map, const float* x, float unit,
                     std::uint8_t* codes, std::size_t n) {
    const __m256 u = _mm256_set1_ps(unit);
    std::size_t i = 0;
    for (; n - i >= 16; i += 16) {
        const __m256i a = codes8(map, _mm256_div_ps(_mm256_loadu_ps(x + i), u)),
                      b = codes8(map, _mm256_div_ps(_mm256_loadu_ps(x + i + 8), u));
        const __m256i words = // packed with saturation: -1 becomes 0
            _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
        const __m128i bytes =
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), bytes);
    }
    return i;
}

template <bool has_sign>
std::size_t dequantize(const dynamic_map<has_sign>& map, const std::uint8_t* codes, float absmax,
                       float* x, std::size_t n) {
    const __m256 u = _mm256_set1_ps(absmax);
    std::size_t i = 0;
    for (; n - i >= 8; i += 8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
        const __m256 q = _mm256_i32gather_ps(map.value.data(), _mm256_cvtepu8_epi32(bytes), 4);
        _mm256_storeu_ps(x + i, _mm256_mul_ps(q, u));
    }
    return i;
}

} // namespace lanes
#endif

/// Codes of one block of n numbers; returns its absmax. Signs are kept: see code(). Throws where a
/// number is not finite, with nothing written.
template <bool has_sign>
float quantize_block(const dynamic_map<has_sign>& map, const float* MPT_RESTRICT x,
                     std::uint8_t* MPT_RESTRICT codes, std::size_t n) {
    const float absmax = largest_magnitude(x, n);
    check(bits_of(absmax) < fp32_infinity, "dynamic_map: a block with ", absmax,
          "; only finite numbers have a code: look for the overflow before");
    const float unit = absmax > 0 ? absmax : 1;
    std::size_t i = 0;
#if defined(__AVX2__)
    i = lanes::quantize(map, x, unit, codes, n);
#endif
    for (; i < n; ++i) codes[i] = std::uint8_t(map.code(x[i] / unit, true));
    return absmax;
}

template <bool has_sign>
void dequantize_block(const dynamic_map<has_sign>& map, const std::uint8_t* MPT_RESTRICT codes,
                      float absmax, float* MPT_RESTRICT x, std::size_t n) {
    std::size_t i = 0;
#if defined(__AVX2__)
    i = lanes::dequantize(map, codes, absmax, x, n);
#endif
    for (; i < n; ++i) x[i] = map.value[codes[i]] * absmax;
}

} // namespace mpt
