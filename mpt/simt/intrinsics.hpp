// SPDX-License-Identifier: MIT
/// @file intrinsics.hpp
/// The arithmetic of a GPU that C++ has no words for.                      tier 2, needs:
/// simt/cuda_words.hpp simt/hooks.hpp
///
/// Idea     __fmul_rn(a, b) is one rounded product, never part of a fused multiply and add;
///          __fmaf_rn is the fused one. Bits can be counted, searched and looked at as floats.
///          The fast functions (__expf, __fdividef, rsqrtf) are here the exact ones of the host:
///          a GPU's differ in the last bits, so their results agree only to a tolerance.
/// Breaks   -ffast-math or -ffp-contract=fast: the compiler then fuses what _rn was to keep apart
/// Source   CUDA Math API reference; CUDA C++ Programming Guide, Mathematical Functions (errors)
/// See      half.hpp, atomics.hpp, tests/simt/arithmetic_test.cpp
#pragma once
#include "mpt/simt/cuda_words.hpp" // MPT_SIMT_QUIET
#include "mpt/simt/hooks.hpp"      // watch

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace mpt::simt {

// ---- rounded once, to nearest ----

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

// ---- fast on a GPU ----

inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; } // NaN: 0
inline float rsqrtf(float x) { return float(1.0 / std::sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

// ---- integers and bits ----

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
/// Position of the lowest set bit, counted from 1; 0: none.
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
/// Zeros above the highest set bit; 32 (64) for 0.
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) {
    return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
inline unsigned __brev(unsigned x) { // bits in reverse
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
    return r;
}
/// The upper half of the product.
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(1ull * a * b >> 32); }
inline int __mulhi(int a, int b) { return int(1ll * a * b >> 32); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
/// Of the 8 bytes y:x, those that the digits of s name.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    const std::uint64_t both = std::uint64_t(y) << 32 | x;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= unsigned(both >> (s >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return unsigned((std::uint64_t(high) << 32 | low) << (by & 31) >> 32);
}

inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

// ---- numbers to integers, as the names say: nearest, down, up, towards zero ----
// Out of range: the nearest integer there is; NaN: 0.

template <class I, class F>
I to_integer(F rounded) {
    const F least = -F(I(1) << (sizeof(I) * 8 - 2)) * 2;
    if (rounded != rounded) return 0;
    if (rounded < least) return I(-1) - (I(~0ull >> (65 - sizeof(I) * 8)));
    if (rounded >= -least) return I(~0ull >> (65 - sizeof(I) * 8));
    return I(rounded);
}
inline int __float2int_rn(float x) { return to_integer<int>(std::nearbyint(x)); }
inline int __float2int_rd(float x) { return to_integer<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return to_integer<int>(std::ceil(x)); }
inline int __float2int_rz(float x) { return to_integer<int>(std::trunc(x)); }
inline long long __float2ll_rn(float x) { return to_integer<long long>(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }

// ---- memory ----

/// A load through the read-only cache.
template <class T>
T __ldg(const T* p) {
    return *p;
}
/// Loads and stores that say how long a line is wanted.
template <class T>
T __ldcs(const T* p) {
    return *p;
}
template <class T>
T __ldcg(const T* p) {
    return *p;
}
template <class T>
void __stcs(T* p, T value) {
    *p = value;
}
template <class T>
void __stcg(T* p, T value) {
    *p = value;
}
/// What was written before is seen before what is written after.
MPT_SIMT_QUIET inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    watch::fence();
}
MPT_SIMT_QUIET inline void __threadfence_block() { __threadfence(); }
MPT_SIMT_QUIET inline void __threadfence_system() { __threadfence(); }

/// CUDA has these without std::.
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return std::fmin(a, b); } // NaN: the other one
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

} // namespace mpt::simt
