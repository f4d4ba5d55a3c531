// SPDX-License-Identifier: MIT
/// @file bf16.hpp
/// The upper half of an fp32: all of its range, 8 bits of significand.     tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp
///
/// Idea     s eeeeeeee mmmmmmm: value = (-1)^s * 1.mmmmmmm * 2^(eeeeeeee - 127), the exponents of
///          fp32. Widening appends 16 zero bits, narrowing rounds 16 bits away.
///              0 01111111 0000000   3F80   1          0 11111110 1111111   7F7F   3.39e38, largest
///              0 01111111 0000001   3F81   1 + 2^-7   0 00000000 0000001   0001   2^-133, smallest
///          No gradient is lost to underflow; but neighbours differ by 1 part in 128 to 256, and
///          a weight of 1 moves down only by more than 2^-9, up only by more than 2^-8.
/// Costs    2 bytes; arithmetic is done in fp32 and rounded once, so there are no operators here
/// Breaks   truncating instead of rounding: 1000 small steps all pull towards 0;
///          adding the rounding bias to a NaN: 7FFF8C22 becomes -0, 7F800001 becomes infinity
/// See      rounding.hpp (how), rounding_modes.hpp, cast.hpp, tests/numeric/bf16_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, narrow_code, widen_code

#include <cstdint>

namespace mpt {

struct bf16 {
    std::uint16_t bits; // s eeeeeeee mmmmmmm

    static constexpr int exponent_bits = 8;
    static constexpr int mantissa_bits = 7;
    static constexpr float max = 0x1.FEp127f;
    static constexpr float min_normal = 0x1p-126f;
    static constexpr float min_subnormal = 0x1p-133f;
    static constexpr float epsilon = 0x1p-7f; // from 1 to the next number

    bf16() = default;

    /// The nearest bf16, ties to even; from 2^128 - 2^119 on infinity; NaN stays NaN.
    MPT_HOST_DEVICE explicit constexpr bf16(float x)
        : bits(std::uint16_t(narrow_code<exponent_bits, mantissa_bits>(bits_of(x)))) {}

    /// Only from float: a double would be rounded twice, an integer could be meant as a code.
    template <class other>
    explicit bf16(other) = delete;

    /// Exact.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        return float_of(widen_code<exponent_bits, mantissa_bits>(bits));
    }

    MPT_HOST_DEVICE static constexpr bf16 from_bits(std::uint16_t code) {
        bf16 x{};
        x.bits = code;
        return x;
    }
};

} // namespace mpt
