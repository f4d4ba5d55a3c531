// SPDX-License-Identifier: MIT
#include "mpt/numeric/fp16.hpp" // fp16

#include "model.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <type_traits>

using namespace mpt;

static_assert(sizeof(fp16) == 2 && std::is_trivial_v<fp16>);
static_assert(fp16(1.0f).bits == 0x3C00 && float(fp16::from_bits(0xC000)) == -2.0f);
static_assert(fp16(std::numeric_limits<float>::infinity()).bits == 0x7C00); // constants, too
static_assert(fp16(std::numeric_limits<float>::quiet_NaN()).bits == 0x7E00);
static_assert(!std::is_constructible_v<fp16, double> && !std::is_constructible_v<fp16, int>);
static_assert(!std::is_convertible_v<float, fp16> && !std::is_convertible_v<fp16, float>);

static std::uint32_t code(float x) { return fp16(x).bits; }

TEST_CASE("all 65,536 codes: their values, and back") {
    const model::shape f = model::shape_of<fp16>();
    std::size_t bad_value = 0, bad_back = 0, nans = 0;
    for (std::uint32_t c = 0; c < 65536; ++c) {
        const float x = float(fp16::from_bits(std::uint16_t(c)));
        const double v = model::value(c, f);
        if (std::isnan(v)) { // sign and payload stay, and the NaN is quiet
            ++nans;
            bad_value += bits_of(x) != ((c & 0x8000) << 16 | 0x7FC00000 | (c & 0x3FF) << 13);
            bad_back += code(x) != (c | 0x200);
        } else {
            bad_value += double(x) != v || std::signbit(x) != std::signbit(v);
            bad_back += code(x) != c;
        }
    }
    CHECK(bad_value == 0);
    CHECK(bad_back == 0);
    CHECK(nans == 2 * 1023);
}

TEST_CASE("narrowing agrees with the model on every code, every tie and many others") {
    const model::shape f = model::shape_of<fp16>();
    const auto inputs = model::inputs(f, 1, 30000);
    CHECK(inputs.size() > 800000);
    CHECK(model::wrong(inputs, f, code) == 0);

    using namespace model; // sabotage: each must be found out
    CHECK(wrong(inputs, f, [](float x) { return with_rounding<5, 10>(x, truncate); }) > 0);
    CHECK(wrong(inputs, f, [](float x) { return with_rounding<5, 10>(x, half_away); }) > 0);
    CHECK(wrong(inputs, f, forgets_nan<5, 10>) > 0);
    CHECK(wrong(inputs, f, flushes<5, 10>) > 0);
}

TEST_CASE("the table of tricky inputs") {
    const auto rows = model::table("tricky_fp16.csv");
    CHECK(rows.size() == 19);
    CHECK(model::wrong(rows, code) == 0);
    CHECK(model::wrong(rows, [](float x) { return bf16(x).bits; }) > 0); // sabotage
    CHECK(model::wrong(rows, [](float x) {
              return model::with_rounding<5, 10>(x, model::half_away);
          }) > 0);
}

TEST_CASE("a stride through all 2^32 bit patterns") {
    const model::shape f = model::shape_of<fp16>();
    std::size_t bad = 0;
    for (std::uint64_t b = 0; b < (1ull << 32); b += 16381)
        bad += !model::right(float_of(std::uint32_t(b)), code(float_of(std::uint32_t(b))), f);
    CHECK(bad == 0);
}

TEST_CASE("constants") {
    CHECK(code(fp16::max) == 0x7BFF);
    CHECK(code(fp16::min_normal) == 0x0400);
    CHECK(code(fp16::min_subnormal) == 0x0001);
    CHECK(code(1 + fp16::epsilon) == 0x3C01);
}

TEST_CASE("Adam's eps of 1e-8 is 0 in fp16: 0 / (sqrt(0) + eps) would be NaN") {
    CHECK(code(1e-8f) == 0);
    const float eps = float(fp16(1e-8f));
    CHECK(std::isnan(0.0f / (std::sqrt(0.0f) + eps)));
    CHECK(0.0f / (std::sqrt(0.0f) + 1e-8f) == 0.0f); // in fp32
}

TEST_CASE("the largest activation: 65504 + 15 stays, 65504 + 16 is infinity") {
    CHECK(code(65504 + 15) == 0x7BFF);
    CHECK(code(65504 + 16) == 0x7C00);
    CHECK(code(-65504 - 16) == 0xFC00);
    CHECK(code(66246) == 0x7C00);                        // seen in a feed-forward layer
    CHECK(code(64 * 40.0f * 40.0f) == 0x7C00);           // q . k of 64 channels: 102400
    CHECK(float(fp16(64 * 5.0f * 40.0f)) == 12800.0f);   // q scaled by 1/8 before
    CHECK(code(300.0f * 300.0f) == 0x7C00);              // a square in layernorm
}

TEST_CASE("a running sum of ones in fp16 stops at 2048") {
    fp16 sum(0.0f);
    for (int i = 0; i < 4096; ++i) sum = fp16(float(sum) + 1);
    CHECK(float(sum) == 2048);
}
