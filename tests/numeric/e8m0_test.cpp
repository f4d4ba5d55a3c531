// SPDX-License-Identifier: MIT
#include "mpt/numeric/e8m0.hpp" // e8m0, times_power

#include "mx_model.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace mpt;

static_assert(sizeof(e8m0) == 1 && std::is_trivial_v<e8m0>);
static_assert(float(e8m0::power(0)) == 1 && e8m0::power(3).bits == 130);
static_assert(e8m0::power(-500).bits == 0 && e8m0::power(128).bits == 0xFE);
static_assert(e8m0::up(3).exponent() == 2 && e8m0::down(3).exponent() == 1);

TEST_CASE("all 256 codes") {
    CHECK(mx_model::table("decode_e8m0.csv").size() == 256);
    const auto value = [](std::uint8_t c) { return float(e8m0::from_bits(c)); };
    CHECK(mx_model::wrong_values("e8m0", value) == 0);
    // sabotage: b << 23 gets two of them wrong, 2^-127 and NaN
    CHECK(mx_model::wrong_values(
              "e8m0", [](std::uint8_t c) { return float_of(std::uint32_t(c) << 23); }) == 2);
    for (std::uint32_t c = 0; c < 255; ++c) { // back again
        const e8m0 scale = e8m0::from_bits(std::uint8_t(c));
        CHECK(e8m0::up(float(scale)).bits == c);
        CHECK(e8m0::down(float(scale)).bits == c);
        CHECK(e8m0::power(scale.exponent()).bits == c);
    }
}

TEST_CASE("from float, up and down, with and without saturation: all runs of equal codes") {
    constexpr auto saturate = scale_overflow::saturate, nan = scale_overflow::nan;
    const auto up = [](float x) { return e8m0::up(x, saturate).bits; };
    const auto up_nan = [](float x) { return e8m0::up(x, nan).bits; };
    const auto down = [](float x) { return e8m0::down(x, saturate).bits; };
    const auto down_nan = [](float x) { return e8m0::down(x, nan).bits; };
    CHECK(mx_model::table("runs_e8m0_up_sat.csv").size() == 514);
    CHECK(mx_model::wrong_runs("e8m0_up_sat", up) == 0);
    CHECK(mx_model::wrong_runs("e8m0_up_nosat", up_nan) == 0);
    CHECK(mx_model::wrong_runs("e8m0_down_sat", down) == 0);
    CHECK(mx_model::wrong_runs("e8m0_down_nosat", down_nan) == 0);

    // sabotage: the other direction, the other overflow, the nearest power, subnormals as zero
    CHECK(mx_model::wrong_runs("e8m0_up_sat", down) > 0);
    CHECK(mx_model::wrong_runs("e8m0_up_sat", up_nan) > 0);
    CHECK(mx_model::wrong_runs("e8m0_down_nosat", down) > 0);
    CHECK(mx_model::wrong_runs("e8m0_up_sat", [](float x) {
              return std::uint8_t((bits_of(x) + 0x400000) >> 23);
          }) > 0);
    CHECK(mx_model::wrong_runs("e8m0_up_sat",
                               [=](float x) { return up(std::fabs(x) < 0x1p-126f ? 0 : x); }) > 0);
}

TEST_CASE("times a power of two, as ldexp does it") {
    std::size_t wrong = 0, one_step = 0;
    for (int n = -128; n <= 128; ++n)
        for (const float x : {1.0f, -1.75f, 448.0f, 0x1p-9f, -0.0f, 0x1.FFFFFEp127f, 0x1.8p-126f}) {
            wrong += bits_of(times_power(x, n)) != bits_of(std::ldexp(x, n));
            const float power = float_of(std::uint32_t(127 + n) << 23);
            one_step += bits_of(x * power) != bits_of(std::ldexp(x, n));
        }
    CHECK(wrong == 0);
    CHECK(one_step > 0); // sabotage: 2^-127 as bits 0
}
