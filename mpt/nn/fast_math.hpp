// SPDX-License-Identifier: MIT
/// @file fast_math.hpp
/// exp and tanh of fp32 that a compiler can vectorise.                     tier 4, needs: std only
///
/// Idea     libm's functions are calls: a loop over one stays scalar. These are a few additions,
///          multiplications and integer steps without a branch, so that a loop over them becomes
///          8 or 16 at a time, with the same bits on every machine.
/// Formula  exp(x) = 2^n e^r,  n = round(x / ln 2),  r = x - n ln 2 in [-0.35, 0.35],
///          e^r = 1 + r + r^2 q(r), q of degree 4 (minimax: relative error 3e-9)
///          tanh(x) = x + x^3 p(x^2) up to 0.55, 1 - 2 / (e^2x + 1) above
/// Costs    about 20 and 35 operations an element, 8 or 16 elements at a time
/// Breaks   -ffast-math, which cancels (t + magic) - magic
/// Source   Cody and Waite 1980, Software Manual for the Elementary Functions (the split of ln 2)
/// See      tests/nn/fast_math_test.cpp (every error bound below is checked there)
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace mpt {

/// e^x. Error at most 1 ulp (measured over all floats: 0.87), subnormal results included; 0 below
/// -103.97, infinity above 88.72; NaN stays NaN.
inline float fast_exp(float x) {
    constexpr float magic = 0x1.8p23f; // added to a small number, it leaves the nearest integer
    x = x > 89.0f ? 89.0f : x;         // so that n fits the exponents below; a NaN passes
    x = x < -104.0f ? -104.0f : x;
    const float t = x * 0x1.715476p+0f + magic; // 1 / ln 2
    const float n = t - magic;
    const float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f; // ln 2 = 0.693359375 - 0.000212...
    float q = 0x1.6a23dp-10f;
    q = q * r + 0x1.123a20p-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    const float e = (r * r * q + r) + 1.0f;
    // 2^n in two factors, since n may pass the exponents of normal numbers at either end
    const std::int32_t whole = std::bit_cast<std::int32_t>(t) - std::bit_cast<std::int32_t>(magic);
    const std::int32_t half = whole >> 1;
    const auto power = [](std::int32_t k) { // 2^k
        return std::bit_cast<float>(std::uint32_t(k + 127) << 23);
    };
    return e * power(half) * power(whole - half);
}
inline double fast_exp(double x) { return std::exp(x); }

/// tanh x. Error at most 2 ulp (measured over all floats: 1.28); NaN stays NaN.
inline float fast_tanh(float x) {
    const float a = std::fabs(x), y = x * x;
    float p = -0x1.9bba6ap-8f;
    p = p * y + 0x1.595686p-6f;
    p = p * y + -0x1.b92bbap-5f;
    p = p * y + 0x1.110d3cp-3f;
    p = p * y + -0x1.55554cp-2f;
    const float small = x + x * y * p;
    const float large = 1.0f - 2.0f / (fast_exp(2.0f * a) + 1.0f);
    return a < 0.55f ? small : std::copysign(large, x);
}
inline double fast_tanh(double x) { return std::tanh(x); }

} // namespace mpt
