// SPDX-License-Identifier: MIT
/// @file rounding_modes.hpp
/// Roundings other than to nearest even: toward zero, ties away from zero. tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp numeric/scalar.hpp
///
/// Idea     Counted in steps of the format, a magnitude is code.fraction; to round is to add to the
///          fraction and keep what stands before the point. What is added makes the mode:
///              toward zero (RZ)           nothing: a plain truncation
///              to nearest, ties away (RNA)     1/2, as PTX's cvt.rna does for tf32
///              to nearest, ties to even (RNE)  1/2, but less than that if the code is even: the
///                                         constructors of the types, rounding.hpp
///              stochastic                 a random number in [0, 1): stochastic.hpp
///          Often said: "bf16 is a truncated fp32". Its bits are; but processors and frameworks
///          round to nearest even. A truncated number is half a step too small on average, always
///          toward zero, so that errors add up; rounded to nearest they cancel.
/// Formula  mean error of truncation: -1/2 step; of ties away: 2^-dropped / 2; of ties to even: 0
/// Source   IEEE 754-2019, 4.3; NVIDIA, PTX ISA: cvt.rna.tf32
/// See      rounding.hpp, stochastic.hpp, tests/numeric/rounding_modes_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bit_layout, bits_of, fp32_magnitude, fp32_infinity
#include "mpt/numeric/scalar.hpp"   // format

#include <cstdint>

namespace mpt {

/// The fp32 magnitude `a` (bits; finite) in steps of T, with 32 bits behind the point. Only floats
/// below 2^-9 of the smallest step have bits behind those; they are cut off.
template <class T>
MPT_HOST_DEVICE constexpr std::uint64_t in_steps(std::uint32_t a) {
    using to = bit_layout<format<T>::exponent_bits, format<T>::mantissa_bits>;
    constexpr std::uint32_t leading_one = fp32_mantissa + 1;
    constexpr int smallest_exponent = 1 + int(to::rebias >> 23); // of T, with fp32's bias
    if (a >= leading_one + to::rebias || to::rebias == 0)
        return std::uint64_t(a - to::rebias) << (32 - to::dropped);
    // Below the smallest normal number the steps stay as large as there.
    const int exponent = a < leading_one ? 1 : int(a >> 23);
    const int shift = to::dropped + smallest_exponent - exponent;
    const std::uint64_t significand = a < leading_one ? a : (a & fp32_mantissa) | leading_one;
    return shift < 56 ? (significand << 32) >> shift : 0; // a significand has 24 bits
}

/// x rounded by adding `fraction` / 2^32 of a step to its magnitude. NaN and infinity are left to
/// the constructor of T; a number that rounds past the largest becomes `beyond` with its sign.
template <class T>
MPT_HOST_DEVICE constexpr T round_adding(float x, std::uint32_t fraction, T beyond) {
    constexpr int magnitude = format<T>::exponent_bits + format<T>::mantissa_bits; // bits
    constexpr int unused = sizeof(T) == 4 ? 31 - magnitude : 0; // of tf32 the low 13
    constexpr std::uint32_t largest = T(format<T>::max).bits;
    const std::uint32_t a = bits_of(x) & fp32_magnitude;
    if (a >= fp32_infinity) return T(x);
    const std::uint32_t code = std::uint32_t((in_steps<T>(a) + fraction) >> 32) << unused;
    const std::uint32_t sign = (bits_of(x) >> 31) << (magnitude + unused);
    return T::from_bits(decltype(T::bits)(sign | (code <= largest ? code : beyond.bits)));
}

/// What the constructor of T makes of an overflow: infinity, or where it saturates the largest.
template <class T>
MPT_HOST_DEVICE constexpr T overflowed() {
    return T(float_of(fp32_infinity));
}

/// The next T toward zero. A finite number never becomes infinite: beyond the largest, the largest.
template <class T>
MPT_HOST_DEVICE constexpr T toward_zero(float x) {
    return round_adding<T>(x, 0, T(format<T>::max));
}

/// The nearest T; of two equally near ones that with the larger magnitude.
template <class T>
MPT_HOST_DEVICE constexpr T half_away(float x) {
    return round_adding<T>(x, 0x80000000u, overflowed<T>());
}

} // namespace mpt
