// SPDX-License-Identifier: MIT
#include "mpt/numeric/rounding.hpp" // round_shift, round_magnitude, narrow_code, widen_code

#include "model.hpp"

#include <doctest/doctest.h>

using namespace mpt;

static_assert(round_shift(0b0011'0111, 4) == 0b0011); // below half
static_assert(round_shift(0b0011'1000, 4) == 0b0100); // tie, odd
static_assert(round_shift(0b0010'1000, 4) == 0b0010); // tie, even
static_assert(round_shift(0b0010'1001, 4) == 0b0011); // above half
static_assert(round_shift(0x7F800000, 31) == 1 && round_shift(0x40000000, 31) == 0);

// value / 2^dropped to nearest, ties to even, by looking at the remainder
static std::size_t wrong_shifts(std::uint32_t (*shift)(std::uint32_t, int)) {
    std::size_t count = 0;
    for (int dropped = 1; dropped <= 8; ++dropped)
        for (std::uint32_t v = 0; v < 4096; ++v) {
            const std::uint32_t one = 1u << dropped, rest = v % one;
            std::uint32_t wanted = v / one;
            if (2 * rest > one || (2 * rest == one && wanted % 2 == 1)) ++wanted;
            count += shift(v, dropped) != wanted;
        }
    return count;
}

TEST_CASE("division by a power of two, to nearest and ties to even") {
    CHECK(wrong_shifts([](std::uint32_t v, int d) { return round_shift(v, d); }) == 0);
    CHECK(wrong_shifts(model::truncate) > 0); // sabotage
    CHECK(wrong_shifts(model::half_away) > 0);
}

// Every shape of format goes through the same rule, also those that have no header yet.
template <int exponent_bits, int mantissa_bits>
static void check_shape(std::uint32_t stride) {
    CAPTURE(exponent_bits);
    CAPTURE(mantissa_bits);
    const model::shape f{exponent_bits, mantissa_bits};
    const auto inputs = model::inputs(f, stride, 5000);
    CHECK(model::wrong(inputs, f, [](float x) {
              return narrow_code<exponent_bits, mantissa_bits>(bits_of(x));
          }) == 0);
    CHECK(model::wrong(inputs, f, [](float x) {
              return model::with_rounding<exponent_bits, mantissa_bits>(x, model::truncate);
          }) > 0);
    CHECK(model::wrong(inputs, f, [](float x) {
              return model::with_rounding<exponent_bits, mantissa_bits>(x, model::half_away);
          }) > 0);
    CHECK(model::wrong(inputs, f, model::forgets_nan<exponent_bits, mantissa_bits>) > 0);
    CHECK(model::wrong(inputs, f, model::flushes<exponent_bits, mantissa_bits>) > 0);

    std::size_t bad = 0;
    const std::uint32_t codes = 2u << (exponent_bits + mantissa_bits);
    for (std::uint32_t code = 0; code < codes; code += stride) {
        const float x = float_of(widen_code<exponent_bits, mantissa_bits>(code));
        const double v = model::value(code, f);
        bad += std::isnan(v) ? !std::isnan(x) : x != v || std::signbit(x) != std::signbit(v);
    }
    CHECK(bad == 0);
}

TEST_CASE("formats of many shapes round as the model does") {
    check_shape<2, 1>(1);
    check_shape<3, 2>(1);
    check_shape<4, 3>(1);
    check_shape<5, 2>(1);
    check_shape<5, 10>(7);
    check_shape<6, 9>(7);
    check_shape<7, 15>(997);
    check_shape<8, 7>(7);
    check_shape<8, 10>(101);
    check_shape<8, 22>(65537);
}

TEST_CASE("past the largest number the codes count on, so that a caller can saturate") {
    using e4m3 = bit_layout<4, 3>; // IEEE's infinity is 78; the codes go on to 7F, 480
    CHECK(e4m3::infinity == 0x78);
    CHECK(round_magnitude<4, 3>(bits_of(240.0f)) == 0x77);
    CHECK(round_magnitude<4, 3>(bits_of(448.0f)) == 0x7E);
    CHECK(round_magnitude<4, 3>(bits_of(464.0f)) == 0x7E); // tie: even
    CHECK(round_magnitude<4, 3>(bits_of(465.0f)) == 0x7F);
    CHECK(round_magnitude<4, 3>(bits_of(1000.0f)) > 0x7F);
    CHECK(narrow_code<4, 3>(bits_of(-448.0f)) == 0xF8);
}
