// SPDX-License-Identifier: MIT
/// @file scalar.hpp
/// What generic code needs to know of a number format.                     tier 1, needs:
/// base/qualifiers.hpp numeric/bf16.hpp numeric/fp16.hpp numeric/tf32.hpp
///
/// Idea     Weights and activations are stored in T; an operation reads them widened, computes in
///          wide_t<T> and rounds once when it stores: y = narrow<T>(f(widen(x))). wide_t is float
///          for fp32 and everything narrower, and double for double, the type in which gradients
///          are checked by finite differences.
/// Breaks   rounding in between: two roundings to 16 bits are not one
/// See      cast.hpp (the same for arrays), tests/numeric/scalar_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp" // MPT_HOST_DEVICE
#include "mpt/numeric/bf16.hpp"    // bf16
#include "mpt/numeric/fp16.hpp"    // fp16
#include "mpt/numeric/tf32.hpp"    // tf32

#include <limits>

namespace mpt {

/// name, wide, exponent_bits, mantissa_bits, max, min_normal, min_subnormal, epsilon of T.
template <class T>
struct format;

/// The formats that are structs of their own bring their constants with them.
template <class T>
struct narrow_format {
    using wide = float;
    static constexpr int exponent_bits = T::exponent_bits;
    static constexpr int mantissa_bits = T::mantissa_bits;
    static constexpr float max = T::max;
    static constexpr float min_normal = T::min_normal;
    static constexpr float min_subnormal = T::min_subnormal;
    static constexpr float epsilon = T::epsilon;
};

template <class T>
struct builtin_format {
    using wide = T;
    static constexpr int exponent_bits = sizeof(T) == 4 ? 8 : 11;
    static constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1;
    static constexpr T max = std::numeric_limits<T>::max();
    static constexpr T min_normal = std::numeric_limits<T>::min();
    static constexpr T min_subnormal = std::numeric_limits<T>::denorm_min();
    static constexpr T epsilon = std::numeric_limits<T>::epsilon();
};

template <>
struct format<fp16> : narrow_format<fp16> {
    static constexpr const char* name = "fp16";
};
template <>
struct format<bf16> : narrow_format<bf16> {
    static constexpr const char* name = "bf16";
};
template <>
struct format<tf32> : narrow_format<tf32> {
    static constexpr const char* name = "tf32";
};
template <>
struct format<float> : builtin_format<float> {
    static constexpr const char* name = "fp32";
};
template <>
struct format<double> : builtin_format<double> {
    static constexpr const char* name = "fp64";
};

/// The type in which an operation on T computes.
template <class T>
using wide_t = typename format<T>::wide;

/// Exact.
template <class T>
MPT_HOST_DEVICE constexpr wide_t<T> widen(T x) {
    return static_cast<wide_t<T>>(x);
}

/// One rounding, to nearest and ties to even; an overflow is as the constructor of T has it.
template <class T>
MPT_HOST_DEVICE constexpr T narrow(wide_t<T> x) {
    return static_cast<T>(x);
}

/// "fp32", "bf16", "e4m3": as format_table.hpp has them; of double "fp64".
template <class T>
constexpr const char* name() {
    return format<T>::name;
}

} // namespace mpt
