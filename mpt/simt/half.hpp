// SPDX-License-Identifier: MIT
/// @file half.hpp
/// __half and __nv_bfloat16 with the arithmetic of cuda_fp16.h and cuda_bf16.h. tier 2, needs:
/// numeric/bf16.hpp numeric/fp16.hpp simt/vector_types.hpp
///
/// Idea     They are mpt::fp16 and mpt::bf16, so a host array can be copied to the device as it is.
///          Each operation widens, computes in fp32 and rounds once to nearest, ties to even, which
///          for one sum, product or quotient of two numbers of 16 bits is the correctly rounded one
///          (24 bits are 2 * 11 + 2). A fused product and sum needs more bits than a double has; it
///          is made odd where it is not exact, and then rounds as if it were.
///          In pairs (__half2) the first element has the lower address.
/// Breaks   operators: x + y of halves rounds each time; the kernels widen with float(x) instead
/// Source   CUDA Math API reference, Half and Bfloat16 Precision Intrinsics;
///          Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums (odd rounding)
/// See      numeric/fp16.hpp, numeric/bf16.hpp, tests/simt/arithmetic_test.cpp
#pragma once
#include "mpt/numeric/bf16.hpp"      // bf16
#include "mpt/numeric/fp16.hpp"      // fp16
#include "mpt/simt/vector_types.hpp" // float2

#include <bit>
#include <cmath>
#include <cstdint>

namespace mpt::simt {

using __half = fp16;
using half = fp16;
using __nv_bfloat16 = bf16;
using nv_bfloat16 = bf16;

struct alignas(4) __half2 {
    __half x, y;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
using half2 = __half2;
using nv_bfloat162 = __nv_bfloat162;

// ---- conversions ----

inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline float __half2float(__half x) { return float(x); }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return float(x); }

inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half __ushort_as_half(unsigned short bits) { return __half::from_bits(bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return __nv_bfloat16::from_bits(bits);
}

inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline float __low2float(__half2 v) { return float(v.x); }
inline float __high2float(__half2 v) { return float(v.y); }

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) {
    return {__nv_bfloat16(v.x), __nv_bfloat16(v.y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline float __low2float(__nv_bfloat162 v) { return float(v.x); }
inline float __high2float(__nv_bfloat162 v) { return float(v.y); }

// ---- arithmetic of one ----

/// a b + c, rounded once to T.
template <class T>
T fused(T a, T b, T c) {
    const double product = double(float(a)) * double(float(b)); // exact: at most 22 bits
    const double addend = float(c);
    double sum = product + addend;
    const double part = sum - product; // what the addition lost (Knuth's two-sum)
    const double lost = (product - (sum - part)) + (addend - part);
    const auto bits = std::bit_cast<std::uint64_t>(sum);
    if (lost != 0 && std::isfinite(sum) && !(bits & 1)) // to odd: no tie that was none
        sum = std::bit_cast<double>((lost > 0) == (sum > 0) ? bits + 1 : bits - 1);
    const auto narrow = float(sum); // and the same from double to float
    const double error = sum - double(narrow);
    const auto code = std::bit_cast<std::uint32_t>(narrow);
    if (error == 0 || !std::isfinite(narrow) || (code & 1)) return T(narrow);
    return T(std::bit_cast<float>((error > 0) == (narrow > 0) ? code + 1 : code - 1));
}

inline __half __hadd(__half a, __half b) { return __half(float(a) + float(b)); }
inline __half __hsub(__half a, __half b) { return __half(float(a) - float(b)); }
inline __half __hmul(__half a, __half b) { return __half(float(a) * float(b)); }
inline __half __hdiv(__half a, __half b) { return __half(float(a) / float(b)); }
inline __half __hneg(__half a) { return __half::from_bits(std::uint16_t(a.bits ^ 0x8000)); }
inline __half __habs(__half a) { return __half::from_bits(std::uint16_t(a.bits & 0x7FFF)); }
inline __half __hfma(__half a, __half b, __half c) { return fused(a, b, c); }
inline bool __hisnan(__half a) { return std::isnan(float(a)); }
inline int __hisinf(__half a) { return std::isinf(float(a)) ? (a.bits & 0x8000 ? -1 : 1) : 0; }
inline bool __heq(__half a, __half b) { return float(a) == float(b); }
inline bool __hne(__half a, __half b) { // false for NaN, as CUDA has it
    return float(a) < float(b) || float(a) > float(b);
}
inline bool __hlt(__half a, __half b) { return float(a) < float(b); }
inline bool __hle(__half a, __half b) { return float(a) <= float(b); }
inline bool __hgt(__half a, __half b) { return float(a) > float(b); }
inline bool __hge(__half a, __half b) { return float(a) >= float(b); }
inline __half __hmax(__half a, __half b) { return __half(std::fmax(float(a), float(b))); }
inline __half __hmin(__half a, __half b) { return __half(std::fmin(float(a), float(b))); }

inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(float(a) + float(b));
}
inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(float(a) - float(b));
}
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(float(a) * float(b));
}
inline __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(float(a) / float(b));
}
inline __nv_bfloat16 __hneg(__nv_bfloat16 a) {
    return __nv_bfloat16::from_bits(std::uint16_t(a.bits ^ 0x8000));
}
inline __nv_bfloat16 __habs(__nv_bfloat16 a) {
    return __nv_bfloat16::from_bits(std::uint16_t(a.bits & 0x7FFF));
}
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return fused(a, b, c);
}
inline bool __hisnan(__nv_bfloat16 a) { return std::isnan(float(a)); }
inline int __hisinf(__nv_bfloat16 a) {
    return std::isinf(float(a)) ? (a.bits & 0x8000 ? -1 : 1) : 0;
}
inline bool __heq(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) == float(b); }
inline bool __hlt(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) < float(b); }
inline bool __hgt(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) > float(b); }
inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(std::fmax(float(a), float(b)));
}
inline __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(std::fmin(float(a), float(b)));
}

// ---- arithmetic of pairs ----

inline __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
inline __half2 __hsub2(__half2 a, __half2 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {__hadd(a.x, b.x), __hadd(a.y, b.y)};
}
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {__hsub(a.x, b.x), __hsub(a.y, b.y)};
}
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {__hmul(a.x, b.x), __hmul(a.y, b.y)};
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

} // namespace mpt::simt
