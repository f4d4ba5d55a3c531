// SPDX-License-Identifier: MIT
/// @file mx.hpp
/// Microscaling: 32 small numbers and one power of two that they share.    tier 1, needs:
/// base/qualifiers.hpp numeric/e8m0.hpp numeric/packed.hpp numeric/rounding.hpp
///
/// Idea     amax, the largest magnitude of the block, chooses the scale; the elements are what is
///          left, x / 2^e, each rounded once. So a format of 4 to 8 bits has the range of fp32
///          *between* blocks; within one it has its own, and one outlier pushes the others down.
/// Formula  2^k <= amax < 2^(k+1), 2^emax the largest power of two that the element has:
///          e = k - emax + (is amax / 2^k above the rule's limit?)   v_i = 2^e element_i
/// Costs    bits an element: its own + 8/32, so 8.25 (MXFP8, MXINT8), 6.25 (MXFP6), 4.25 (MXFP4)
/// Breaks   amax by fmax or >, which pass over a NaN; log2(0); 1 / 2^127, which is subnormal;
///          ceil(log2(amax / max)) in fp32, wrong for one input; a transposed block: quantise
///          columns apart, from the wide numbers
/// Source   Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, arXiv:2310.10537
/// See      fp4_fp6.hpp, fp8.hpp, nvfp4.hpp, tests/numeric/mx_test.cpp, chapters/02_formats.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/e8m0.hpp"     // e8m0, times_power
#include "mpt/numeric/packed.hpp"   // code_bits
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, fp32_magnitude, fp32_infinity

#include <cstdint>

namespace mpt {

/// The element of MXINT8: whole 64ths from -127/64 to 127/64. -128 is read, but never written, so
/// that the range is symmetric; and there is no -0.
struct mxint8 {
    std::uint8_t bits; // two's complement

    static constexpr int mantissa_bits = 6; // behind the point
    static constexpr float max = 127.0f / 64;

    mxint8() = default;

    /// The nearest, ties to even; past the largest, infinity and NaN: the largest.
    MPT_HOST_DEVICE explicit constexpr mxint8(float x) : bits(0) {
        const std::uint32_t a = bits_of(x) & fp32_magnitude;
        std::uint32_t size = 127;
        if (a < bits_of(max)) // floats from 2^23 on are whole: the adder rounds to a whole number
            size = bits_of(float_of(a) * 64.0f + 0x1p23f) - bits_of(0x1p23f);
        bits = std::uint8_t(bits_of(x) >> 31 && a <= fp32_infinity ? 0u - size : size);
    }
    template <class other>
    explicit mxint8(other) = delete;

    MPT_HOST_DEVICE explicit constexpr operator float() const {
        return float(bits < 128 ? int(bits) : int(bits) - 256) / 64.0f;
    }
};
template <>
inline constexpr int code_bits<mxint8> = 8;

/// When does the scale go one power up? The element's largest number is s_max 2^emax; amax becomes
/// s 2^emax with 1 <= s < 2 where it does not, s / 2 where it does.
enum class mx_rule {
    floor, // never: what is above max is clipped, by up to a quarter (e2m1). OCP's own rule
    ceil,  // s > 1: never clips, and leaves the top unused
    even,  // s rounded to the element's mantissa is 2: clips less than floor
    rceil  // s > s_max: never clips, the tightest; cuDNN's and Transformer Engine's
};

/// floor(log2 x) and the 23 bits behind the leading 1, of a positive finite float.
struct exponent_and_mantissa {
    int exponent;
    std::uint32_t mantissa;
};
MPT_HOST_DEVICE constexpr exponent_and_mantissa split(float x) {
    const std::uint32_t bits = bits_of(x);
    const bool subnormal = bits <= fp32_mantissa; // then x is the whole number `bits`, times 2^-149
    const std::uint32_t normal = subnormal ? bits_of(float(int(bits))) : bits;
    return {int(normal >> 23) - 127 - (subnormal ? 149 : 0), normal & fp32_mantissa};
}

/// The scale for elements T of a block whose largest magnitude is amax, positive and finite. Exact:
/// the quotient amax / max is never formed, its two significands are compared.
template <class T>
MPT_HOST_DEVICE constexpr e8m0 mx_scale(float amax, mx_rule rule) {
    const exponent_and_mantissa a = split(amax), most = split(T::max);
    // Rounded to the element's mantissa, significands from 2 - 2^-(bits + 1) on are 2.
    const std::uint32_t rounds_up = fp32_mantissa + 1 - (1u << (22 - T::mantissa_bits));
    const bool up = rule == mx_rule::ceil    ? a.mantissa > 0
                    : rule == mx_rule::even  ? a.mantissa >= rounds_up
                    : rule == mx_rule::rceil ? a.mantissa > most.mantissa
                                             : false;
    return e8m0::power(a.exponent - most.exponent + up);
}

/// Largest magnitude of n numbers; a NaN or an infinity among them comes out. Among integers NaN
/// is the largest of all, so that none is passed over.
MPT_HOST_DEVICE constexpr float block_amax(const float* x, int n) {
    std::uint32_t most = 0;
    for (int i = 0; i < n; ++i) {
        const std::uint32_t a = bits_of(x[i]) & fp32_magnitude;
        most = a > most ? a : most;
    }
    return float_of(most);
}

/// Elements T: e4m3 or e5m2 (MXFP8), e2m3 or e3m2 (MXFP6), e2m1 (MXFP4), mxint8.
template <class T>
struct mx_block {
    static constexpr int size = 32;
    e8m0 scale;
    T elements[size];
};

/// n <= 32 numbers that lie one behind the other along the axis that a product sums over; missing
/// ones are 0. A NaN or an infinity makes all of the block NaN: scale FF, codes 0.
template <class T>
MPT_HOST_DEVICE constexpr mx_block<T> mx_quantize(const float* x, int n = mx_block<T>::size,
                                                  mx_rule rule = mx_rule::floor) {
    mx_block<T> block{}; // zeros
    const float most = block_amax(x, n);
    const bool poisoned = bits_of(most) >= fp32_infinity;
    block.scale = poisoned    ? e8m0::from_bits(0xFF)
                  : most == 0 ? e8m0::power(e8m0::least) // log2(0) is never asked for
                              : mx_scale<T>(most, rule);
    // Dividing by a power of two is exact, or ends far below the smallest element: one rounding.
    if (!poisoned)
        for (int i = 0; i < n; ++i)
            block.elements[i] = T(times_power(x[i], -block.scale.exponent()));
    return block;
}

/// The first n numbers again. Exact, but where an element was rounded up to 2^128 (not by floor).
template <class T>
MPT_HOST_DEVICE constexpr void mx_dequantize(const mx_block<T>& block, float* x,
                                             int n = mx_block<T>::size) {
    for (int i = 0; i < n; ++i)
        x[i] = block.scale.is_nan() ? float(block.scale)
                                    : times_power(float(block.elements[i]), block.scale.exponent());
}

/// Bits of memory an element, its part of the scale's byte with it.
template <class T>
inline constexpr double mx_bits = code_bits<T> + 8.0 / mx_block<T>::size;

} // namespace mpt
