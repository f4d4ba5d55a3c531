// SPDX-License-Identifier: MIT
/// @file int8.hpp
/// Blocks of whole numbers from -127 to 127 and the magnitude that 127 means. tier 1, needs:
/// base/error.hpp base/qualifiers.hpp numeric/rounding.hpp
///
/// Idea     No exponent: all steps of a block are equally large, amax / 127, where amax is the
///          block's largest magnitude. What is below half a step becomes 0, so one outlier costs
///          all its neighbours their digits; small blocks keep that to few. -128 is never used:
///          then the range is symmetric, and -x quantises to -q.
/// Formula  q = clamp(to nearest even(127 x / amax), -127, 127), x' = q amax / 127, both as if
///          exact: |x' - x| <= amax / 254 and the rounding of x' to fp32. amax = 0: all 0.
/// Costs    1 + 4 / block bytes an element: a byte, and the amax of its block in fp32
/// Breaks   127 x / amax in fp32, in any order: near ties another q. amax 3, x 1.8779527: 79.499997
///          steps, but x / (amax / 127) comes out as 79.5, and so 80. NaN in a block
/// See      cast.hpp, mx.hpp (a power of two as scale), tests/numeric/int8_test.cpp
#pragma once
#include "mpt/base/error.hpp"       // check
#include "mpt/base/qualifiers.hpp"  // MPT_HOST_DEVICE
#include "mpt/numeric/rounding.hpp" // bits_of, float_of, fp32_magnitude, fp32_infinity

#include <cstddef>
#include <cstdint>

namespace mpt {

/// x in steps of amax / 127, for finite x and amax >= 0.
///
/// In doubles, and as if exact. 127 x is (31 bits); the quotient is rounded, by 2^-53 of its size.
/// That cannot make or unmake a tie k + 1/2: where 2 * 127 x and (2 k + 1) amax, of 32 bits each,
/// differ, they do so by at least 2^-32 of their size.
MPT_HOST_DEVICE constexpr std::int8_t quantize_int8(float x, float amax) {
    if (amax == 0) return 0;
    const double exact = 127.0 * double(x) / double(amax);
    const double within = exact > 127 ? 127 : exact < -127 ? -127 : exact;
    // Doubles from 2^52 to 2^53 are the whole numbers: the adder rounds to one, ties to even, and
    // the low bits of the sum are the number.
    const std::uint64_t whole = __builtin_bit_cast(std::uint64_t, within + 0x1.8p52);
    return std::int8_t(std::uint8_t(whole));
}

/// The nearest fp32 to q amax / 127; of q = 127 amax itself.
MPT_HOST_DEVICE constexpr float dequantize_int8(std::int8_t q, float amax) {
    const double product = double(q) * double(amax); // exact
    return float(product / 127.0);                   // two roundings that act as one: see above
}

/// How n elements are cut up: blocks of `block`, the last one perhaps shorter. block = n: one amax
/// for the whole tensor.
struct int8_blocks {
    std::size_t n, block;

    constexpr std::size_t count() const { return n == 0 ? 0 : n / block + (n % block != 0); }
    constexpr std::size_t begin(std::size_t b) const { return b * block; }
    constexpr std::size_t end(std::size_t b) const {
        return n - begin(b) < block ? n : begin(b) + block;
    }
    constexpr std::size_t bytes() const { return n + 4 * count(); }

    /// Throws unless there is room for `amaxes` magnitudes, no more and no fewer.
    void check_room(std::size_t amaxes) const {
        check(block > 0 || n == 0, "int8: blocks of 0 elements; give 1 or more, or all ", n);
        const std::size_t wanted = count();
        check(amaxes == wanted, "int8: room for ", amaxes, " magnitudes; ", n,
              " elements in blocks of ", block, " have ", wanted);
    }
};

/// q and amax[b] of x in blocks. x and q have cut.n elements, amax has `amaxes`. NaN and infinity
/// are an error that names block and element; q and amax before that block are written then.
inline void quantize_int8(const float* x, std::int8_t* q, float* amax, std::size_t amaxes,
                          int8_blocks cut) {
    cut.check_room(amaxes);
    for (std::size_t b = 0; b < amaxes; ++b) {
        std::uint32_t largest = 0; // as integers, magnitudes are in order, infinity and NaN last
        for (std::size_t i = cut.begin(b); i < cut.end(b); ++i) {
            const std::uint32_t a = bits_of(x[i]) & fp32_magnitude;
            largest = a > largest ? a : largest;
        }
        if (largest >= fp32_infinity) {
            std::size_t i = cut.begin(b);
            while ((bits_of(x[i]) & fp32_magnitude) < fp32_infinity) ++i;
            check(false, "int8: block ", b, " has ", x[i], " at element ", i,
                  "; only finite numbers have a q: look for the overflow before");
        }
        amax[b] = float_of(largest);
        for (std::size_t i = cut.begin(b); i < cut.end(b); ++i) q[i] = quantize_int8(x[i], amax[b]);
    }
}

/// x = q amax / 127 by blocks; sizes as above.
inline void dequantize_int8(const std::int8_t* q, const float* amax, std::size_t amaxes, float* x,
                            int8_blocks cut) {
    cut.check_room(amaxes);
    for (std::size_t b = 0; b < amaxes; ++b)
        for (std::size_t i = cut.begin(b); i < cut.end(b); ++i)
            x[i] = dequantize_int8(q[i], amax[b]);
}

} // namespace mpt
