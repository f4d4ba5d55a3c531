// SPDX-License-Identifier: MIT
/// @file philox.hpp
/// Random numbers by address: the n-th is computed, not waited for.        tier 0, needs:
/// base/qualifiers.hpp
///
/// Idea     A cipher turns a counter and a key into 128 random bits. No state is kept: whoever has
///          (seed, layer, step, sample, element) computes the same bits, on any thread, rank or
///          machine, in any order, and again when activations are recomputed.
/// Formula  ten rounds of  (c0, c1, c2, c3) -> (hi(M1*c2)^c1^k0, lo(M1*c2), hi(M0*c0)^c3^k1,
///          lo(M0*c0)),  the keys raised by W0, W1 between rounds
/// Costs    20 multiplications for 4 numbers of 32 bits
/// Breaks   two uses that share a counter and a key share their numbers: give each use its own
/// Source   Salmon, Moraes, Dror, Shaw 2011, Parallel random numbers: as easy as 1, 2, 3 (Philox);
///          Box, Muller 1958, A note on the generation of random normal deviates
/// See      tests/base/philox_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp" // MPT_HOST_DEVICE

#include <cmath>
#include <cstdint>

namespace mpt {

struct philox4 {
    std::uint32_t x[4];
};

/// Philox4x32-10.
MPT_HOST_DEVICE constexpr philox4 philox(philox4 c, std::uint32_t key0, std::uint32_t key1) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t(0xD2511F53) * c.x[0];
        const std::uint64_t p1 = std::uint64_t(0xCD9E8D57) * c.x[2];
        c = philox4{{std::uint32_t(p1 >> 32) ^ c.x[1] ^ key0, std::uint32_t(p1),
                     std::uint32_t(p0 >> 32) ^ c.x[3] ^ key1, std::uint32_t(p0)}};
        key0 += 0x9E3779B9; // golden ratio
        key1 += 0xBB67AE85; // sqrt(3) - 1
    }
    return c;
}

/// 32 random bits as a number in [0, 1): a multiple of 2^-24, so that the float is exact and 1
/// never comes out.
MPT_HOST_DEVICE constexpr float uniform01(std::uint32_t random) {
    return float(random >> 8) * 0x1p-24f;
}

struct normal2 {
    double first, second;
};

/// Two independent numbers of the normal distribution (mean 0, variance 1) from 2 x 32 random bits,
/// by Box and Muller: radius sqrt(-2 ln u), angle 2 pi v. At most 6.77 in size. log, sin and cos
/// are written out, to about 1e-15, because those of the C library differ in their last bits from
/// machine to machine; this way the same seed draws the same weights everywhere.
inline normal2 normal_pair(std::uint32_t a, std::uint32_t b) {
    // ln u = e ln 2 + 2 atanh s, s = (m - 1)/(m + 1), for u = m 2^e with m around 1: |s| < 0.172
    int e = 0;
    double m = std::frexp((a + 0.5) * 0x1p-32, &e); // u is never 0
    if (m < 0.70710678118654752) m *= 2, --e;
    const double s = (m - 1) / (m + 1), s2 = s * s;
    double series = 0;
    for (int k = 21; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
    const double radius = std::sqrt(-2 * (e * 0.69314718055994531 + 2 * s * series));

    // angle = quarter turns + x, |x| <= pi/4; the split is exact, in integers
    const std::uint32_t quarter = (b + 0x20000000u) >> 30;
    const double x = std::int32_t(b - (quarter << 30)) * (6.2831853071795865 * 0x1p-32);
    const double x2 = x * x;
    double sine = 0, cosine = 0, factorial = 355687428096000; // 17!
    for (int k = 17; k >= 1; k -= 2) { // Taylor: x - x^3/3! + ..., 1 - x^2/2! + ...
        sine = 1 / factorial - x2 * sine;
        factorial /= k;
        cosine = 1 / factorial - x2 * cosine;
        factorial /= k > 1 ? k - 1 : 1;
    }
    sine *= x;

    const double cos4[4] = {cosine, -sine, -cosine, sine}; // of x plus 0, 1, 2, 3 quarter turns
    const double sin4[4] = {sine, cosine, -sine, -cosine};
    return {radius * cos4[quarter], radius * sin4[quarter]};
}

} // namespace mpt
