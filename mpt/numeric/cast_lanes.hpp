// SPDX-License-Identifier: MIT
/// @file cast_lanes.hpp
/// 16 floats to 16 codes and back, by the instructions of x86.             tier 1, needs:
/// numeric/fp8.hpp numeric/rounding.hpp numeric/scalar.hpp
///
/// Idea     What the scalar types do, for two vectors of 8 floats, where the compiler may use F16C
///          and AVX2 (-march=native). fp16 has instructions of its own, and e5m2, its upper half,
///          borrows one of them. bf16 and fp8 are rounded in integers as rounding.hpp says it.
///          x86's own fp32 -> bf16 instruction is not used: it turns subnormal numbers into 0.
/// Breaks   integers do not know NaN: `alone` says when the 16 have to be narrowed one by one
/// Source   Intel, Software Developer's Manual, volume 2: VCVTPS2PH, VCVTPH2PS, VCVTNEPS2BF16
/// See      cast.hpp (arrays), stochastic_lanes.hpp, rounding.hpp, tests/numeric/cast_test.cpp
#pragma once
#include "mpt/numeric/fp8.hpp"      // e4m3, e5m2
#include "mpt/numeric/rounding.hpp" // bit_layout, fp32_magnitude, fp32_infinity, fp32_quiet
#include "mpt/numeric/scalar.hpp"   // fp16, bf16

#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mpt::lanes {

/// Are there instructions for float <-> T?
template <class T>
inline constexpr bool exist = false;

#if defined(__F16C__) || defined(__AVX2__)
struct floats {
    __m256 low, high;
};

// 16 codes of 2 bytes, or of 1; D says which.
template <class T>
inline auto load(const T* from) {
    if constexpr (sizeof(T) == 2)
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    else
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline floats load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }

// A streaming store wants an aligned address.
template <bool streaming>
inline void store(void* to, __m256i codes) {
    __m256i* at = static_cast<__m256i*>(to);
    streaming ? _mm256_stream_si256(at, codes) : _mm256_storeu_si256(at, codes);
}
template <bool streaming>
inline void store(void* to, __m128i codes) {
    __m128i* at = static_cast<__m128i*>(to);
    streaming ? _mm_stream_si128(at, codes) : _mm_storeu_si128(at, codes);
}
template <bool streaming>
inline void store(float* to, floats x) {
    streaming ? _mm256_stream_ps(to, x.low) : _mm256_storeu_ps(to, x.low);
    streaming ? _mm256_stream_ps(to + 8, x.high) : _mm256_storeu_ps(to + 8, x.high);
}

#if defined(__F16C__) // ---- fp16 ----
template <>
inline constexpr bool exist<fp16> = true;

inline __m256i narrowed(floats x, fp16) {
    const __m128i low = _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT);
    const __m128i high = _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT);
    return _mm256_insertf128_si256(_mm256_castsi128_si256(low), high, 1);
}
inline floats widened(__m256i codes, fp16) {
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(codes)),
            _mm256_cvtph_ps(_mm256_extractf128_si256(codes, 1))};
}
inline bool alone(floats, fp16) { return false; } // F16C knows about NaNs
#endif                                            // F16C

#if defined(__AVX2__)
inline __m256i magnitudes(__m256 x) {
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(fp32_magnitude));
}
// Is one of them a NaN?
inline bool any_nan(floats x) { // in integers: -ffast-math believes that there are no NaNs
    const __m256i largest = _mm256_max_epi32(magnitudes(x.low), magnitudes(x.high));
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(largest, _mm256_set1_epi32(fp32_infinity)));
}
// 16 codes of 2 bytes from numbers of 4.
inline __m256i packed16(__m256i low, __m256i high) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8); // it took 4 in turn
}
inline __m128i packed8(__m256i low, __m256i high) {
    const __m256i codes = packed16(low, high);
    return _mm_packus_epi16(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
}
// rounding.hpp: round_shift
template <int dropped>
inline __m256i round_shift(__m256i value) {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(value, dropped), _mm256_set1_epi32(1));
    const __m256i below_half = _mm256_set1_epi32((1 << (dropped - 1)) - 1);
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(value, below_half), odd), dropped);
}

// ---- bf16 ----
template <>
inline constexpr bool exist<bf16> = true;

inline __m256i narrowed(floats x, bf16) {
    return packed16(round_shift<16>(_mm256_castps_si256(x.low)),
                    round_shift<16>(_mm256_castps_si256(x.high)));
}
inline __m256 widened_from_bf16(__m128i codes) { // a NaN becomes quiet
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16);
    const __m256i a = _mm256_and_si256(bits, _mm256_set1_epi32(fp32_magnitude));
    const __m256i nan = _mm256_cmpgt_epi32(a, _mm256_set1_epi32(fp32_infinity));
    const __m256i quiet = _mm256_and_si256(nan, _mm256_set1_epi32(fp32_quiet));
    return _mm256_castsi256_ps(_mm256_or_si256(bits, quiet));
}
inline floats widened(__m256i codes, bf16) {
    return {widened_from_bf16(_mm256_castsi256_si128(codes)),
            widened_from_bf16(_mm256_extracti128_si256(codes, 1))};
}
inline bool alone(floats x, bf16) { return any_nan(x); }

#if defined(__F16C__) // ---- fp8 ----
template <>
inline constexpr bool exist<e4m3> = true;
template <>
inline constexpr bool exist<e5m2> = true;

inline __m256i with_sign_of(__m256 x, __m256i code) {
    const __m256i sign = _mm256_set1_epi32(0x80);
    return _mm256_or_si256(code,
                           _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 24), sign));
}
// rounding.hpp: round_magnitude, and narrow_code that saturates
template <class T>
inline __m256i rounded_to_fp8(__m256 x) {
    using to = bit_layout<T::exponent_bits, T::mantissa_bits>;
    const __m256i a = magnitudes(x);
    const __m256i least = _mm256_set1_epi32(fp32_mantissa + 1 + to::rebias);
    const __m256i steps = _mm256_set1_epi32((151 - to::bias - T::mantissa_bits) << 23);
    const __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(steps));
    const __m256i subnormal = _mm256_sub_epi32(_mm256_castps_si256(sum), steps);
    const __m256i normal =
        round_shift<to::dropped>(_mm256_sub_epi32(a, _mm256_set1_epi32(to::rebias)));
    const __m256i code = _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(least, a));
    return with_sign_of(x, _mm256_min_epi32(code, _mm256_set1_epi32(T::max_code)));
}
inline __m128i narrowed(floats x, e4m3) {
    return packed8(rounded_to_fp8<e4m3>(x.low), rounded_to_fp8<e4m3>(x.high));
}
inline __m128i narrowed(floats x, e5m2) {
    return packed8(rounded_to_fp8<e5m2>(x.low), rounded_to_fp8<e5m2>(x.high));
}
inline bool alone(floats x, e4m3) { return any_nan(x); }
inline bool alone(floats x, e5m2) { return any_nan(x); }

inline floats widened(__m128i codes, e5m2) { // the upper half of an fp16
    return widened(_mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8), fp16{});
}
// s eeee mmm as s 0eeee mmm0000000 is an fp16 2^8 times too small (the biases are 7 and 15), for
// subnormal codes too. The code of NaN, which would be 480, becomes a NaN of fp16.
inline floats widened(__m128i codes, e4m3) {
    const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7); // s s eeee mmm ...
    const __m256i a = _mm256_and_si256(shifted, _mm256_set1_epi16(0x3FFF));
    const __m256i nan = _mm256_cmpeq_epi16(a, _mm256_set1_epi16(0x7F << 7));
    const __m256i half = _mm256_and_si256(shifted, _mm256_set1_epi16(short(0xBFFF)));
    const __m256i to_nan = _mm256_and_si256(nan, _mm256_set1_epi16(0x7E00 ^ 0x7F << 7));
    const floats x = widened(_mm256_xor_si256(half, to_nan), fp16{});
    return {_mm256_mul_ps(x.low, _mm256_set1_ps(256)), _mm256_mul_ps(x.high, _mm256_set1_ps(256))};
}
#endif // F16C
#endif // AVX2
#endif // F16C or AVX2

} // namespace mpt::lanes
