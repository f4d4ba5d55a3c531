// SPDX-License-Identifier: MIT
/// @file fp8.hpp
/// Two formats of 8 bits: e4m3 for weights and activations, e5m2 for gradients. tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp numeric/scalar.hpp
///
/// Idea     8 bits are too few for both, so each gives something up. e5m2 is the upper half of an
///          fp16: its range, infinities, NaNs, 3 bits of significand. e4m3 has 4, and spends the
///          codes that IEEE would set aside on numbers: no infinity, one NaN.
///              e4m3  0 0111 000   38   1          e5m2  0 01111 00   3C   1
///                    0 1111 110   7E   448, max         0 11110 11   7B   57344, max
///                    0 1111 111   7F   NaN              0 11111 00   7C   infinity, 7D to 7F NaN
///                    0 0000 001   01   2^-9             0 00000 01   01   2^-16
///          What is too large becomes the largest number (saturates), the habit of training: there
///          the scale of a tensor is chosen so that hardly anything is. unsaturated() overflows.
/// Breaks   clamping before rounding: 464 is a tie and rounds to 448, only 464 + 1 ulp overflows;
///          letting NaN saturate: 448 in place of NaN hides what went wrong
/// Source   Micikevicius et al. 2022, FP8 Formats for Deep Learning, arXiv:2209.05433, section 3
/// See      rounding.hpp (how), cast.hpp (arrays), tests/numeric/fp8_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, narrow_code, widen_code, widen_magnitude
#include "mpt/numeric/scalar.hpp"   // format, narrow_format

#include <cstdint>

namespace mpt {

struct e4m3 {
    std::uint8_t bits; // s eeee mmm

    static constexpr int exponent_bits = 4;
    static constexpr int mantissa_bits = 3;
    static constexpr float max = 448.0f;
    static constexpr float min_normal = 0x1p-6f;
    static constexpr float min_subnormal = 0x1p-9f;
    static constexpr float epsilon = 0x1p-3f; // from 1 to the next number
    static constexpr std::uint32_t max_code = 0x7E;
    static constexpr std::uint32_t nan_code = 0x7F; // and FF

    e4m3() = default;

    /// The nearest e4m3, ties to even; from 448 on, and for infinity, 448. NaN stays NaN.
    MPT_HOST_DEVICE explicit constexpr e4m3(float x) : e4m3(x, max_code) {}

    /// Above 464, and for infinity, NaN: there is no infinity.
    MPT_HOST_DEVICE static constexpr e4m3 unsaturated(float x) { return e4m3(x, nan_code); }

    /// Only from float: a double would be rounded twice, an integer could be meant as a code.
    template <class other>
    explicit e4m3(other) = delete;

    /// Exact.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        const std::uint32_t m = bits & 0x7F;
        const std::uint32_t number = widen_magnitude<exponent_bits, mantissa_bits>(m);
        return float_of(std::uint32_t(bits >> 7) << 31 |
                        select(m == nan_code, fp32_infinity | fp32_quiet, number));
    }

    MPT_HOST_DEVICE static constexpr e4m3 from_bits(std::uint8_t code) {
        e4m3 x{};
        x.bits = code;
        return x;
    }

private:
    MPT_HOST_DEVICE constexpr e4m3(float x, std::uint32_t beyond)
        : bits(std::uint8_t(narrow_code<4, 3>(bits_of(x), max_code, beyond, nan_code))) {}
};

struct e5m2 {
    std::uint8_t bits; // s eeeee mm

    static constexpr int exponent_bits = 5;
    static constexpr int mantissa_bits = 2;
    static constexpr float max = 57344.0f;
    static constexpr float min_normal = 0x1p-14f;
    static constexpr float min_subnormal = 0x1p-16f;
    static constexpr float epsilon = 0x1p-2f; // from 1 to the next number
    static constexpr std::uint32_t max_code = 0x7B;
    static constexpr std::uint32_t infinity_code = 0x7C;

    e5m2() = default;

    /// The nearest e5m2, ties to even; from 57344 on, and for infinity, 57344. NaN stays NaN.
    MPT_HOST_DEVICE explicit constexpr e5m2(float x) : e5m2(x, max_code) {}

    /// From 61440 on infinity.
    MPT_HOST_DEVICE static constexpr e5m2 unsaturated(float x) { return e5m2(x, infinity_code); }

    /// Only from float: a double would be rounded twice, an integer could be meant as a code.
    template <class other>
    explicit e5m2(other) = delete;

    /// Exact.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        return float_of(widen_code<exponent_bits, mantissa_bits>(bits));
    }

    MPT_HOST_DEVICE static constexpr e5m2 from_bits(std::uint8_t code) {
        e5m2 x{};
        x.bits = code;
        return x;
    }

private:
    MPT_HOST_DEVICE constexpr e5m2(float x, std::uint32_t beyond)
        : bits(std::uint8_t(
              narrow_code<5, 2>(bits_of(x), max_code, beyond, narrow_nan<5, 2>(bits_of(x))))) {}
};

template <>
struct format<e4m3> : narrow_format<e4m3> {
    static constexpr const char* name = "e4m3";
};
template <>
struct format<e5m2> : narrow_format<e5m2> {
    static constexpr const char* name = "e5m2";
};

} // namespace mpt
