// SPDX-License-Identifier: MIT
/// @file fp4_fp6.hpp
/// Formats of 4 and 6 bits, in which every code is a number.               tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp numeric/scalar.hpp
///
/// Idea     So few codes that none is spent on infinity or NaN: the top exponent is one like any
///          other, and what is too large becomes the largest number. There is a -0. e2m1 by code:
///              0 00 0   0     0 01 0   1     0 10 0   2     0 11 0   4
///              0 00 1   0.5   0 01 1   1.5   0 10 1   3     0 11 1   6
///          e2m3 (to 7.5) has finer steps, e3m2 (to 28) a longer range. A block of them shares a
///          scale that brings its numbers into this range: mx.hpp, nvfp4.hpp.
/// Breaks   a chain of comparisons, x < 0.25 ? 0 : x < 0.75 ? 1 : ...: every other tie goes the
///          wrong way, for 0.25, 1.25, 2.5 and 5 go down to the even code, 0.75, 1.75, 3.5 up.
///          There is no NaN to become: as in CUDA's headers it ends as +max. Look for it before.
/// Source   Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, arXiv:2310.10537
/// See      mx.hpp, nvfp4.hpp, packed.hpp, tests/numeric/fp4_fp6_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bit_layout, round_magnitude, widen_magnitude
#include "mpt/numeric/scalar.hpp"   // format, narrow_format

#include <cstdint>

namespace mpt {

/// One number a byte, in its low bits; packed.hpp puts them side by side.
template <int E, int M>
struct finite_float {
    std::uint8_t bits; // sign, E bits of exponent, M of mantissa

    using layout = bit_layout<E, M>;
    static constexpr int exponent_bits = E;
    static constexpr int mantissa_bits = M;
    static constexpr std::uint32_t max_code = (1u << layout::sign) - 1; // all ones
    static constexpr float min_normal = float_of(layout::rebias + (1u << 23));
    static constexpr float min_subnormal = min_normal / float(1 << M);
    static constexpr float epsilon = 1.0f / float(1 << M); // from 1 to the next number
    static constexpr float max = float_of((max_code << layout::dropped) + layout::rebias);

    finite_float() = default;

    /// The nearest number, ties to the even code; past the largest, and infinity: the largest.
    MPT_HOST_DEVICE explicit constexpr finite_float(float x) : bits(0) {
        const std::uint32_t a = bits_of(x) & fp32_magnitude;
        const std::uint32_t rounded = round_magnitude<E, M>(a); // a NaN comes out large
        const std::uint32_t number = rounded < max_code ? rounded : max_code;
        const std::uint32_t sign = a > fp32_infinity ? 0 : bits_of(x) >> 31;
        bits = std::uint8_t(sign << layout::sign | number);
    }

    /// Only from float: a double would be rounded twice, an integer could be meant as a code.
    template <class other>
    explicit finite_float(other) = delete;

    /// Exact.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        const std::uint32_t sign = std::uint32_t(bits) >> layout::sign << 31;
        return float_of(sign | widen_magnitude<E, M>(bits & max_code));
    }

    MPT_HOST_DEVICE static constexpr finite_float from_bits(std::uint8_t code) {
        finite_float x{};
        x.bits = code;
        return x;
    }
};

using e2m1 = finite_float<2, 1>; // fp4: 0 0.5 1 1.5 2 3 4 6
using e2m3 = finite_float<2, 3>; // fp6: steps of 1/8 below 2, to 7.5
using e3m2 = finite_float<3, 2>; // fp6: from 1/16 to 28

template <>
struct format<e2m1> : narrow_format<e2m1> {
    static constexpr const char* name = "e2m1";
};
template <>
struct format<e2m3> : narrow_format<e2m3> {
    static constexpr const char* name = "e2m3";
};
template <>
struct format<e3m2> : narrow_format<e3m2> {
    static constexpr const char* name = "e3m2";
};

/// x rounded to one of its two neighbours by chance: up, away from 0, with the probability
/// (|x| - below) / (above - below), so that the mean is x. random: 16 uniform bits, of which the
/// small ones round up; in stochastic.hpp, which has all formats, the large ones. x is not a NaN.
MPT_HOST_DEVICE constexpr e2m1 stochastic_e2m1(float x, std::uint16_t random) {
    const float magnitude = float_of(bits_of(x) & fp32_magnitude);
    const float y = magnitude < e2m1::max ? magnitude : e2m1::max;
    std::uint8_t code = 0; // the largest number up to y
    while (code < e2m1::max_code && float(e2m1::from_bits(std::uint8_t(code + 1))) <= y) ++code;
    if (code < e2m1::max_code) {
        const float below = float(e2m1::from_bits(code));
        const float above = float(e2m1::from_bits(std::uint8_t(code + 1)));
        // Exact: y - below cancels, above - below and 65536 are powers of two.
        if ((y - below) / (above - below) * 65536.0f > float(random)) ++code;
    }
    return e2m1::from_bits(std::uint8_t(bits_of(x) >> 31 << e2m1::layout::sign | code));
}

} // namespace mpt
