// SPDX-License-Identifier: MIT
/// @file e8m0.hpp
/// A power of two in a byte: the scale of an MX block.                     tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp
///
/// Idea     Nothing but an exponent: byte b is 2^(b - 127), from 2^-127 (00) to 2^127 (FE). No
///          sign, no zero, no infinity; FF is NaN. Multiplying by it changes no digit of what stays
///          in range.
/// Breaks   b << 23 as the bits of a float: right for 01 to FE, but 00 becomes 0 instead of 2^-127,
///          which is a subnormal float (00400000), and FF becomes infinity. Flush-to-zero
///          (-use_fast_math) loses the blocks that have byte 00 in the same way.
///          Another convention rounds to the nearest power; the scale of an MX block never does.
/// Source   Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, arXiv:2310.10537
/// See      mx.hpp, tests/numeric/e8m0_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, fp32_magnitude, fp32_infinity, fp32_quiet

#include <cstdint>

namespace mpt {

/// What becomes of a scale above 2^127: the largest one, or NaN.
enum class scale_overflow { saturate, nan };

struct e8m0 {
    std::uint8_t bits; // exponent + 127

    static constexpr int least = -127, most = 127; // exponents

    /// 2^exponent; exponents that it does not have become the nearest that it has.
    MPT_HOST_DEVICE static constexpr e8m0 power(int exponent) {
        const int within = exponent < least ? least : exponent > most ? most : exponent;
        return from_bits(std::uint8_t(within + 127));
    }
    /// The least power of two that is at least |x|. Zero becomes 2^-127, NaN stays NaN.
    MPT_HOST_DEVICE static constexpr e8m0 up(float x,
                                             scale_overflow how = scale_overflow::saturate) {
        const std::uint32_t a = bits_of(x) & fp32_magnitude, m = a & fp32_mantissa;
        // Between 0 and 2^-126 (exponent bits 0) only 2^-127 is a power: mantissa 400000.
        const bool above = a > fp32_mantissa ? m != 0 : m > 0x00400000;
        return from_exponent_bits(a, (a >> 23) + above, how);
    }
    /// The largest power of two that is at most |x|, or 2^-127. NaN stays NaN.
    MPT_HOST_DEVICE static constexpr e8m0 down(float x,
                                               scale_overflow how = scale_overflow::saturate) {
        const std::uint32_t a = bits_of(x) & fp32_magnitude;
        return from_exponent_bits(a, a >> 23, how);
    }

    MPT_HOST_DEVICE constexpr bool is_nan() const { return bits == 0xFF; }
    MPT_HOST_DEVICE constexpr int exponent() const { return int(bits) - 127; } // not of a NaN

    /// Exact.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        if (is_nan()) return float_of(fp32_infinity | fp32_quiet);
        return float_of(bits == 0 ? 0x00400000 : std::uint32_t(bits) << 23);
    }

    MPT_HOST_DEVICE static constexpr e8m0 from_bits(std::uint8_t code) {
        e8m0 x{};
        x.bits = code;
        return x;
    }

private:
    MPT_HOST_DEVICE static constexpr e8m0 from_exponent_bits(std::uint32_t a, std::uint32_t code,
                                                             scale_overflow how) {
        if (a > fp32_infinity) return from_bits(0xFF);
        if (code < 0xFF) return from_bits(std::uint8_t(code));
        return from_bits(how == scale_overflow::saturate ? 0xFE : 0xFF);
    }
};

/// x * 2^n, -128 <= n <= 128: exact, unless it becomes subnormal or infinite. In two steps, since
/// 2^127 and 2^-127 are not both normal floats.
MPT_HOST_DEVICE constexpr float times_power(float x, int n) {
    const int half = n / 2; // both parts are powers from 2^-64 to 2^64
    return x * float_of(std::uint32_t(127 + half) << 23) *
           float_of(std::uint32_t(127 + n - half) << 23);
}

} // namespace mpt
