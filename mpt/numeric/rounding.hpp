// SPDX-License-Identifier: MIT
/// @file rounding.hpp
/// fp32 to a narrower format, to nearest and ties to even, and back.       tier 1, needs:
/// base/qualifiers.hpp
///
/// Idea     Read as an integer, the bits of a positive float count the floats from zero upwards. So
///          a narrower format keeps the top bits of that count, and rounding is integer division by
///          a power of two: below half goes down, above half goes up, a tie goes to the even code.
///              s eeeeeeee mmmmmmm|mmmmmmmmmmmmmmmm      here: 7 of the 23 mantissa bits are kept
///                         ...0011|0111111111111111      below half  -> ...0011
///                         ...0011|1000000000000000      a tie, odd  -> ...0100
///                         ...0010|1000000000000000      a tie, even -> ...0010
///          A carry out of the mantissa raises the exponent, which is the next float again, and
///          out of the largest finite number it reaches infinity. NaN is set aside before.
/// Source   IEEE 754-2019, 4.3.1 (ties to even), 6.2.3 (NaN payloads)
/// See      fp16.hpp, bf16.hpp, tf32.hpp, fp8.hpp, tests/numeric/rounding_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp" // MPT_HOST_DEVICE

#include <cstdint>

namespace mpt {

MPT_HOST_DEVICE constexpr std::uint32_t bits_of(float x) {
    return __builtin_bit_cast(std::uint32_t, x);
}
MPT_HOST_DEVICE constexpr float float_of(std::uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

inline constexpr std::uint32_t fp32_magnitude = 0x7FFFFFFF; // all but the sign
inline constexpr std::uint32_t fp32_mantissa = 0x007FFFFF;
inline constexpr std::uint32_t fp32_infinity = 0x7F800000; // NaN: a magnitude above it
inline constexpr std::uint32_t fp32_quiet = 0x00400000;    // top mantissa bit: a quiet NaN, no trap

/// Where the bits of a format lie: s, then exponent_bits, then mantissa_bits, in the low bits of
/// an integer (a code). exponent_bits <= 8, 1 <= mantissa_bits < 23.
template <int exponent_bits, int mantissa_bits>
struct bit_layout {
    static constexpr int sign = exponent_bits + mantissa_bits;
    static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    static constexpr int dropped = 23 - mantissa_bits;
    static constexpr std::uint32_t min_normal = 1u << mantissa_bits; // codes below it: subnormal
    static constexpr std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    static constexpr std::uint32_t quiet = min_normal >> 1;
    static constexpr std::uint32_t rebias = std::uint32_t(127 - bias) << 23; // 127: fp32's bias
};

/// choose ? x : y, both computed: without a branch g++ can vectorise the loop around it.
MPT_HOST_DEVICE constexpr std::uint32_t select(bool choose, std::uint32_t x, std::uint32_t y) {
    return y ^ ((x ^ y) & (0u - std::uint32_t(choose)));
}

/// value / 2^dropped, to nearest, ties to even. 1 <= dropped <= 31, value < 2^31.
MPT_HOST_DEVICE constexpr std::uint32_t round_shift(std::uint32_t value, int dropped) {
    const std::uint32_t below_half = (1u << (dropped - 1)) - 1;
    const std::uint32_t odd = (value >> dropped) & 1; // makes a tie carry, so that it ends even
    return (value + below_half + odd) >> dropped;
}

/// The code, without sign, nearest to the fp32 magnitude `a` (bits; not a NaN). Past the largest
/// finite number the codes count on, to infinity and beyond: the caller decides what those mean.
template <int exponent_bits, int mantissa_bits>
MPT_HOST_DEVICE constexpr std::uint32_t round_magnitude(std::uint32_t a) {
    using to = bit_layout<exponent_bits, mantissa_bits>;
    if (exponent_bits == 8) return round_shift(a, to::dropped); // the exponents are fp32's own
    // Below the smallest normal number codes stay equally far apart. So far apart are the floats
    // next to 2^23 such steps: adding those lets the adder round, ties to even, as it always does.
    constexpr int exponent = exponent_bits < 8 ? 151 - to::bias - mantissa_bits : 0;
    constexpr std::uint32_t steps = std::uint32_t(exponent) << 23;
    constexpr std::uint32_t smallest_normal = (fp32_mantissa + 1) + to::rebias;
    const float small = float_of(select(a < smallest_normal, a, 0));
    const std::uint32_t subnormal = bits_of(small + float_of(steps)) - steps;
    const std::uint32_t normal = round_shift(a - to::rebias, to::dropped);
    return select(a < smallest_normal, subnormal, normal);
}

/// Round first, then decide: the code for the float with these bits, where a magnitude that rounds
/// past the code `largest` becomes `beyond`, and a NaN becomes `nan` (both without sign).
template <int exponent_bits, int mantissa_bits>
MPT_HOST_DEVICE constexpr std::uint32_t narrow_code(std::uint32_t bits, std::uint32_t largest,
                                                    std::uint32_t beyond, std::uint32_t nan) {
    using to = bit_layout<exponent_bits, mantissa_bits>;
    const std::uint32_t a = bits & fp32_magnitude;
    const std::uint32_t rounded = round_magnitude<exponent_bits, mantissa_bits>(a);
    const std::uint32_t number = rounded <= largest ? rounded : beyond;
    return ((bits >> 31) << to::sign) | select(a > fp32_infinity, nan, number);
}

/// The NaN of a format of IEEE's shape for an fp32 NaN: top mantissa bits kept, quiet bit set, as
/// x86's F16C and arm64 do it.
template <int exponent_bits, int mantissa_bits>
MPT_HOST_DEVICE constexpr std::uint32_t narrow_nan(std::uint32_t bits) {
    using to = bit_layout<exponent_bits, mantissa_bits>;
    return to::infinity | to::quiet | ((bits & fp32_mantissa) >> to::dropped);
}

/// The code of a format with infinities (IEEE's shape) for the float with these bits.
template <int exponent_bits, int mantissa_bits>
MPT_HOST_DEVICE constexpr std::uint32_t narrow_code(std::uint32_t bits) {
    constexpr std::uint32_t infinity = bit_layout<exponent_bits, mantissa_bits>::infinity;
    const std::uint32_t nan = narrow_nan<exponent_bits, mantissa_bits>(bits);
    return narrow_code<exponent_bits, mantissa_bits>(bits, infinity, infinity, nan);
}

/// The bits of the float equal to a code without sign, if every code is a number. Exact.
template <int exponent_bits, int mantissa_bits>
MPT_HOST_DEVICE constexpr std::uint32_t widen_magnitude(std::uint32_t m) {
    using from = bit_layout<exponent_bits, mantissa_bits>;
    const std::uint32_t normal = (m << from::dropped) + from::rebias;
    if (exponent_bits == 8) return normal;
    // Subnormal: m steps of the smallest one, which fp32 holds as a normal number.
    constexpr int exponent = exponent_bits < 8 ? 128 - from::bias - mantissa_bits : 0;
    const float steps = float(int(m)) * float_of(std::uint32_t(exponent) << 23);
    return select(m < from::min_normal, bits_of(steps), normal);
}

/// The bits of the float equal to a code of a format of IEEE's shape. Exact; a NaN becomes quiet.
template <int exponent_bits, int mantissa_bits>
MPT_HOST_DEVICE constexpr std::uint32_t widen_code(std::uint32_t code) {
    using from = bit_layout<exponent_bits, mantissa_bits>;
    const std::uint32_t m = code & ((1u << from::sign) - 1);
    const std::uint32_t sign = (code >> from::sign) << 31;
    const std::uint32_t quiet = m > from::infinity ? fp32_quiet : 0;
    const std::uint32_t top = m < from::infinity ? 0 : from::rebias; // all ones stays so: 31 -> 255
    return sign | (widen_magnitude<exponent_bits, mantissa_bits>(m) + top) | quiet;
}

} // namespace mpt
