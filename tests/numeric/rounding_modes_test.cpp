// SPDX-License-Identifier: MIT
#include "mpt/numeric/fp8.hpp"            // e4m3, e5m2
#include "mpt/numeric/rounding_modes.hpp" // toward_zero, half_away, in_steps
#include "mpt/numeric/scalar.hpp"         // fp16, bf16, tf32

#include "model.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

using namespace mpt;

static_assert(toward_zero<bf16>(1.999f).bits == 0x3FFF && half_away<bf16>(1.999f).bits == 0x4000);

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Codes that are wrong: for numbers another value than the model's, for NaN and infinity another
/// code than the constructor's.
template <class T>
static std::size_t wrong(const std::vector<float>& inputs, T (*round)(float),
                         double (*rounded)(double, model::shape)) {
    const model::shape f = model::shape_of<T>();
    std::size_t count = 0;
    for (float x : inputs) {
        const T is = round(x);
        if (!std::isfinite(x)) {
            count += is.bits != T(x).bits;
        } else {
            const double value = model::value(model::code(is), f), wanted = rounded(double(x), f);
            count += value != wanted || std::signbit(value) != std::signbit(x);
        }
    }
    return count;
}

template <class T>
static T flips_zero(float x) { // -0.0f and all that rounds to it
    return std::fabs(x) < format<T>::min_subnormal ? T(0.0f) : toward_zero<T>(x);
}

template <class T>
static void check_format(std::uint32_t stride) {
    CAPTURE(std::string(name<T>()));
    const auto inputs = model::inputs(model::shape_of<T>(), stride, 10000);
    CHECK(wrong<T>(inputs, toward_zero<T>, model::toward_zero) == 0);
    CHECK(wrong<T>(inputs, half_away<T>, model::half_away) == 0);
    // The general way, adding to the fraction, is also that of the constructors.
    const auto to_even = [](float x) {
        const std::uint32_t a = bits_of(x) & fp32_magnitude;
        const std::uint32_t odd = a < fp32_infinity ? in_steps<T>(a) >> 32 & 1 : 0;
        return round_adding<T>(x, 0x7FFFFFFFu + odd, overflowed<T>());
    };
    CHECK(wrong<T>(inputs, to_even, model::rounded) == 0);
    std::size_t other = 0;
    for (float x : inputs) other += to_even(x).bits != T(x).bits;
    CHECK(other == 0);

    // sabotage: each must be found out
    CHECK(wrong<T>(inputs, half_away<T>, model::toward_zero) > 0);
    CHECK(wrong<T>(
              inputs, [](float x) { return T(x); }, model::half_away) > 0);
    CHECK(wrong<T>(
              inputs, [](float x) { return T(x); }, model::toward_zero) > 0);
    CHECK(wrong<T>(inputs, flips_zero<T>, model::toward_zero) > 0);
}

TEST_CASE("toward zero and ties away agree with the model, in every format") {
    check_format<fp16>(3);
    check_format<bf16>(3);
    check_format<tf32>(17);
    check_format<e4m3>(1);
    check_format<e5m2>(1);
}

TEST_CASE("tf32 has three roundings in use") {
    const auto bits = [](tf32 x) { return x.bits; };
    struct row {
        std::uint32_t in, even, away, zero;
    };
    for (row r : {row{0x3F801000, 0x3F800000, 0x3F802000, 0x3F800000},
                  row{0x3F803000, 0x3F804000, 0x3F804000, 0x3F802000},
                  row{0x00001000, 0x00000000, 0x00002000, 0x00000000}}) {
        const float x = float_of(r.in);
        CHECK(bits(tf32(x)) == r.even);
        CHECK(bits(half_away<tf32>(x)) == r.away);
        CHECK(bits(toward_zero<tf32>(x)) == r.zero);
    }
    std::size_t bad = 0; // the bits that hardware is said to keep, for every exponent
    for (std::uint32_t b = 0; b < fp32_infinity; b += 4093) {
        bad += bits(half_away<tf32>(float_of(b))) != ((b + 0x1000) & ~0x1FFFu); // PTX cvt.rna
        bad += bits(toward_zero<tf32>(float_of(b))) != (b & ~0x1FFFu); // an mma's top 19 bits
    }
    CHECK(bad == 0);
}

TEST_CASE("overflow: toward zero stays finite, ties away does as the constructor") {
    CHECK(toward_zero<fp16>(1e30f).bits == 0x7BFF);
    CHECK(toward_zero<fp16>(-65535.9f).bits == 0xFBFF);
    CHECK(half_away<fp16>(65519.0f).bits == 0x7BFF);
    CHECK(half_away<fp16>(65520.0f).bits == 0x7C00);
    CHECK(toward_zero<bf16>(std::numeric_limits<float>::max()).bits == 0x7F7F);
    CHECK(half_away<bf16>(std::numeric_limits<float>::max()).bits == 0x7F80);
    CHECK(toward_zero<tf32>(std::numeric_limits<float>::max()).bits == 0x7F7FE000);
    CHECK(toward_zero<e4m3>(479.0f).bits == 0x7E);
    CHECK(half_away<e4m3>(-1e9f).bits == 0xFE);
    CHECK(half_away<e5m2>(61440.0f).bits == 0x7B);
}

TEST_CASE("32 bits behind the point hold every float from 2^-9 of the smallest step on") {
    // e4m3's step is 2^-9; the largest mantissa, all ones, at 2^-9 of it and one power below
    CHECK(in_steps<e4m3>(bits_of(0x1.FFFFFEp-18f)) == 0xFFFFFF);
    CHECK(in_steps<e4m3>(bits_of(0x1.FFFFFEp-19f)) == 0x7FFFFF); // half of it, less its last bit
}

TEST_CASE("NaN and infinity pass through") {
    for (std::uint32_t b : {0x7F800000u, 0xFF800000u, 0x7F800001u, 0xFFFFFFFFu, 0x7FFF8C22u}) {
        CHECK(toward_zero<bf16>(float_of(b)).bits == bf16(float_of(b)).bits);
        CHECK(half_away<fp16>(float_of(b)).bits == fp16(float_of(b)).bits);
        CHECK(toward_zero<e4m3>(float_of(b)).bits == e4m3(float_of(b)).bits);
    }
    CHECK(toward_zero<fp16>(infinity).bits == 0x7C00);
}

TEST_CASE("bf16 is not a truncated fp32: truncation pulls towards zero, nearest does not") {
    // The error over all 2^17 floats of two steps of bf16, one from an even, one from an odd code.
    // In steps: bf16s of [1, 2) are 2^-7 apart. Sums of multiples of 2^-16 below 2^17: exact.
    double cut = 0, away = 0, even = 0;
    for (std::uint32_t low = 0; low < (1u << 17); ++low) {
        const float x = float_of(0x3F800000 + low);
        cut += (double(float(toward_zero<bf16>(x))) - x) * 128;
        away += (double(float(half_away<bf16>(x))) - x) * 128;
        even += (double(float(bf16(x))) - x) * 128;
    }
    CHECK(cut / 0x1p17 == -(0.5 - 0x1p-17)); // half a step: there are 2^16 rests, 0 among them
    CHECK(away / 0x1p17 == 0x1p-17);         // all ties go the same way: half a 2^-16
    CHECK(even == 0);

    // Errors of one sign add up: 100 and 500 times + d, - d, where bf16s are 1/2 apart.
    float truncated = 100, rounded = 100;
    for (int i = 0; i < 500; ++i) {
        const float d = 0.1f + 0.13f * float(i % 7);
        truncated = float(toward_zero<bf16>(float(toward_zero<bf16>(truncated + d)) - d));
        rounded = float(bf16(float(bf16(rounded + d)) - d));
    }
    CHECK(truncated < 10);
    CHECK(std::fabs(rounded - 100) <= 1);
}
