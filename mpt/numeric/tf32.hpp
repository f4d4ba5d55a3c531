// SPDX-License-Identifier: MIT
/// @file tf32.hpp
/// What a tensor core reads of an fp32: bf16's range, fp16's precision.    tier 1, needs:
/// base/qualifiers.hpp numeric/rounding.hpp
///
/// Idea     s eeeeeeee mmmmmmmmmm 0000000000000: an fp32 whose low 13 mantissa bits are zero. It is
///          a way to multiply, not to store: inputs are rounded, products and sums stay fp32.
///              3F801000   1 + 2^-11   a tie    ->  3F800000   1
///              3F803000   1 + 3*2^-11 a tie    ->  3F804000   1 + 2^-9
/// Costs    4 bytes, so no memory is saved; on a GPU a matrix product runs several times faster
/// Breaks   three roundings are in use: to nearest, ties to even (here), ties away from zero
///          (PTX cvt.rna), and plain truncation (an mma that reads the top 19 bits)
/// See      rounding.hpp (how), cast.hpp (arrays), tests/numeric/tf32_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, narrow_code, widen_code

#include <cstdint>

namespace mpt {

struct tf32 {
    std::uint32_t bits; // s eeeeeeee mmmmmmmmmm, then 13 zeros

    static constexpr int exponent_bits = 8;
    static constexpr int mantissa_bits = 10;
    static constexpr float max = 0x1.FFCp127f;
    static constexpr float min_normal = 0x1p-126f;
    static constexpr float min_subnormal = 0x1p-136f;
    static constexpr float epsilon = 0x1p-10f; // from 1 to the next number

    tf32() = default;

    /// The nearest tf32, ties to even; from 2^128 - 2^116 on infinity; NaN stays NaN.
    MPT_HOST_DEVICE explicit constexpr tf32(float x)
        : bits(narrow_code<exponent_bits, mantissa_bits>(bits_of(x)) << 13) {}

    /// Only from float: a double would be rounded twice, an integer could be meant as bits.
    template <class other>
    explicit tf32(other) = delete;

    /// Exact: it is an fp32 already.
    MPT_HOST_DEVICE explicit constexpr operator float() const {
        return float_of(widen_code<exponent_bits, mantissa_bits>(bits >> 13));
    }

    MPT_HOST_DEVICE static constexpr tf32 from_bits(std::uint32_t bits) {
        tf32 x{};
        x.bits = bits;
        return x;
    }
};

/// The fp32 that a matrix product in tf32 sees in place of x.
MPT_HOST_DEVICE constexpr float round_tf32(float x) { return float(tf32(x)); }

} // namespace mpt
