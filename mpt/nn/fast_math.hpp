// SPDX-License-Identifier: MIT
/// @file fast_math.hpp
/// exp and tanh of fp32 that a compiler can vectorise.                     tier 4, needs: std only
///
/// Idea     libm's functions are calls: a loop over one stays scalar. These are a few additions,
///          multiplications and integer steps without a branch, so that a loop over them becomes
///          8 or 16 at a time, with the same bits on every machine.
/// Formula  exp(x) = 2^n e^r,  n = round(x / ln 2),  r = x - n ln 2 in [-0.35, 0.35],
///          e^r = 1 + r + r^2 q(r), q of degree 4 (minimax: relative error 3e-9)
///          tanh(x) = x + x^3 p(x^2) for |x| < 0.55, 1 - 2 / (e^2x + 1) above
/// Costs    about 20 and 35 operations an element, 8 or 16 elements at a time
/// Breaks   -ffast-math, which cancels (t + magic) - magic
/// Source   Cody and Waite 1980, Software Manual for the Elementary Functions (the split of ln 2)
/// See      tests/nn/fast_math_test.cpp (every error bound below is checked there)
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mpt {

/// condition ? a : b by a mask. Of a ternary g++ makes branches again, with a copy of all that
/// follows for each side, and a vectorised loop then runs every copy.
inline float select(bool condition, float a, float b) {
    const std::uint32_t mask = 0u - std::uint32_t(condition);
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & mask) |
                                (std::bit_cast<std::uint32_t>(b) & ~mask));
}
inline double select(bool condition, double a, double b) { return condition ? a : b; }

/// e^x. Error at most 1 ulp; 0 below -87.337, where the result would be subnormal (processors take
/// a hundred times as long over those); infinity above 88.722; NaN stays NaN.
inline float fast_exp(float x) {
    constexpr float magic = 0x1.8p23f; // added to a small number, it leaves the nearest integer
    const float t = x * 0x1.715476p+0f + magic; // 1 / ln 2; the low bits of t are n
    const float n = t - magic;
    // ln 2 = 0.693359375 - 0.000212...
    const float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f;
    float q = 0x1.6a23dp-10f;
    q = q * r + 0x1.123a20p-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    const float e = (r * r * q + r) + 1.0f;
    // times 2^n: n added to the exponent, which lies 23 bits up
    const float y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(e) +
                                         (std::bit_cast<std::uint32_t>(t) << 23));
    const float low = select(x < -0x1.5d589ep+6f, 0.0f, y); // ln 2^-126
    // ln 2^128. Above it x + infinity is infinity, and of a NaN it is a NaN.
    return select(x <= 0x1.62e42ep+6f, low, x + std::numeric_limits<float>::infinity());
}
inline double fast_exp(double x) { return std::exp(x); }

/// tanh x. Error at most 1.5 ulp; NaN stays NaN.
inline float fast_tanh(float x) {
    const float a = std::fabs(x), y = x * x;
    float p = -0x1.9bba6ap-8f;
    p = p * y + 0x1.595686p-6f;
    p = p * y + -0x1.b92bbap-5f;
    p = p * y + 0x1.110d3cp-3f;
    p = p * y + -0x1.55554cp-2f;
    const float small = a + a * y * p;
    const float large = 1.0f - 2.0f / (fast_exp(2.0f * a) + 1.0f);
    return std::copysign(select(a < 0.55f, small, large), x);
}
inline double fast_tanh(double x) { return std::tanh(x); }

} // namespace mpt
