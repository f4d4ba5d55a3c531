// SPDX-License-Identifier: MIT
/// @file fp16.hpp
/// Half precision: 11 bits of significand, a short range.                  tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp
///
/// Idea     s eeeee mmmmmmmmmm: value = (-1)^s * 1.mmmmmmmmmm * 2^(eeeee - 15). Exponent 0 has no
///          leading 1 (subnormal numbers, equal steps of 2^-24); 31 means infinity or NaN.
///              0 01111 0000000000   3C00   1       0 11110 1111111111   7BFF   65504, largest
///              0 00001 0000000000   0400   2^-14   0 00000 0000000001   0001   2^-24, smallest
///          Neighbours differ by 1 part in 1024 to 2048. From 65520 on a float becomes infinity,
///          up to 2^-25 it becomes 0. Gradients live down there: hence loss scaling.
/// Costs    2 bytes; arithmetic is done in fp32 and rounded once, so there are no operators here
/// Breaks   eps = 1e-8 is 0 in fp16; 300 squared is infinity; 2048 + 1 is 2048
/// Source   IEEE 754-2019, 3.6 (binary16)
/// See      rounding.hpp (how), cast.hpp (arrays), tests/numeric/fp16_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, narrow_code, widen_code

#include <cstdint>

namespace mpt {

struct fp16 {
    std::uint16_t bits; // s eeeee mmmmmmmmmm

    static constexpr int exponent_bits = 5;
    static constexpr int mantissa_bits = 10;
    static constexpr float max = 65504.0f;
    static constexpr float min_normal = 0x1p-14f;
    static constexpr float min_subnormal = 0x1p-24f;
    static constexpr float epsilon = 0x1p-10f; // from 1 to the next number

    fp16() = default;

    /// The nearest fp16, ties to even; from 65520 on infinity; NaN stays NaN.
    MPT_HOST_DEVICE explicit constexpr fp16(float x)
        : bits(std::uint16_t(narrow_code<exponent_bits, mantissa_bits>(bits_of(x)))) {}

    /// Only from float: a double would be rounded twice, an integer could be meant as a code.
    template <class other>
    explicit fp16(other) = delete;

    /// Exact.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        return float_of(widen_code<exponent_bits, mantissa_bits>(bits));
    }

    MPT_HOST_DEVICE static constexpr fp16 from_bits(std::uint16_t code) {
        fp16 x{};
        x.bits = code;
        return x;
    }
};

} // namespace mpt
