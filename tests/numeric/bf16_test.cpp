// SPDX-License-Identifier: MIT
#include "mpt/numeric/bf16.hpp" // bf16

#include "model.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace mpt;

static_assert(sizeof(bf16) == 2 && std::is_trivial_v<bf16>);
static_assert(bf16(1.0f).bits == 0x3F80 && float(bf16::from_bits(0xC000)) == -2.0f);
static_assert(!std::is_constructible_v<bf16, double> && !std::is_constructible_v<bf16, int>);
static_assert(!std::is_constructible_v<bf16, fp16>);
static_assert(!std::is_convertible_v<float, bf16> && !std::is_convertible_v<bf16, float>);

static std::uint32_t code(float x) { return bf16(x).bits; }
static std::uint32_t truncated(float x) { return bits_of(x) >> 16; }

TEST_CASE("all 65,536 codes: their values, and back") {
    const model::shape f = model::shape_of<bf16>();
    std::size_t bad_value = 0, bad_back = 0, nans = 0;
    for (std::uint32_t c = 0; c < 65536; ++c) {
        const float x = float(bf16::from_bits(std::uint16_t(c)));
        const double v = model::value(c, f);
        if (std::isnan(v)) {
            ++nans;
            bad_value += bits_of(x) != (c << 16 | 0x00400000);
            bad_back += code(x) != (c | 0x40);
        } else {
            bad_value += double(x) != v || std::signbit(x) != std::signbit(v);
            bad_back += code(x) != c;
        }
    }
    CHECK(bad_value == 0);
    CHECK(bad_back == 0);
    CHECK(nans == 2 * 127);
}

TEST_CASE("narrowing agrees with the model on every code, every tie and many others") {
    const model::shape f = model::shape_of<bf16>();
    const auto inputs = model::inputs(f, 1, 30000);
    CHECK(inputs.size() > 800000);
    CHECK(model::wrong(inputs, f, code) == 0);

    using namespace model; // sabotage: each must be found out
    CHECK(wrong(inputs, f, truncated) > 0);
    CHECK(wrong(inputs, f, [](float x) { return with_rounding<8, 7>(x, truncate); }) > 0);
    CHECK(wrong(inputs, f, [](float x) { return with_rounding<8, 7>(x, half_away); }) > 0);
    CHECK(wrong(inputs, f, forgets_nan<8, 7>) > 0);
    CHECK(wrong(inputs, f, flushes<8, 7>) > 0); // what x86's own instruction does
}

TEST_CASE("the table of tricky inputs") {
    const auto rows = model::table("tricky_bf16.csv");
    CHECK(rows.size() == 18);
    CHECK(model::wrong(rows, code) == 0);
    CHECK(model::wrong(rows, truncated) > 0); // sabotage
    CHECK(model::wrong(rows, model::forgets_nan<8, 7>) > 0);
}

TEST_CASE("a stride through all 2^32 bit patterns") {
    const model::shape f = model::shape_of<bf16>();
    std::size_t bad = 0;
    for (std::uint64_t b = 0; b < (1ull << 32); b += 16381)
        bad += !model::right(float_of(std::uint32_t(b)), code(float_of(std::uint32_t(b))), f);
    CHECK(bad == 0);
}

TEST_CASE("constants") {
    CHECK(code(bf16::max) == 0x7F7F);
    CHECK(code(bf16::min_normal) == 0x0080);
    CHECK(code(bf16::min_subnormal) == 0x0001);
    CHECK(code(1 + bf16::epsilon) == 0x3F81);
}

TEST_CASE("NaN stays NaN, and rounding is not truncation") {
    CHECK(code(float_of(0x7FFF8C22)) == 0x7FFF);             // the bias added: 8000, -0
    CHECK(model::forgets_nan<8, 7>(float_of(0x7FFF8C22)) == 0x8000);
    CHECK(code(float_of(0x7F800001)) == 0x7FC0);             // cut off: 7F80, infinity
    CHECK(truncated(float_of(0x7F800001)) == 0x7F80);
    CHECK(code(float_of(0x3E89CCD5)) == 0x3E8A);             // cut off: 3E89
    CHECK(truncated(float_of(0x3E89CCD5)) == 0x3E89);
}

TEST_CASE("a bf16 weight of 1 stops moving: 100 steps of -1e-4") {
    bf16 weight(1.0f);
    float master = 1.0f;
    for (int step = 0; step < 100; ++step) {
        weight = bf16(float(weight) - 1e-4f);
        master -= 1e-4f;
    }
    CHECK(float(weight) == 1.0f);
    CHECK(master == 0.98999834f);
    CHECK(float(bf16(master)) == 0.98828125f);
}

TEST_CASE("a bf16 weight of 1 moves down by more than 2^-9, up by more than 2^-8") {
    CHECK(float(bf16(1 - 0x1p-9f)) == 1.0f); // ties stay
    CHECK(float(bf16(1 + 0x1p-8f)) == 1.0f);
    CHECK(float(bf16(std::nextafter(1 - 0x1p-9f, 0.0f))) == 1 - 0x1p-8f);
    CHECK(float(bf16(std::nextafter(1 + 0x1p-8f, 2.0f))) == 1 + 0x1p-7f);
}

TEST_CASE("a running sum of ones in bf16 stops at 256") {
    bf16 sum(0.0f);
    for (int i = 0; i < 4096; ++i) sum = bf16(float(sum) + 1);
    CHECK(float(sum) == 256);
}
