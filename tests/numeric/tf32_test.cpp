// SPDX-License-Identifier: MIT
#include "mpt/numeric/tf32.hpp" // tf32, round_tf32

#include "model.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace mpt;

static_assert(sizeof(tf32) == 4 && std::is_trivial_v<tf32>);
static_assert(tf32(1.0f).bits == 0x3F800000 && round_tf32(1 + 0x1p-11f) == 1.0f);
static_assert(!std::is_constructible_v<tf32, double> && !std::is_constructible_v<tf32, int>);

static std::uint32_t bits(float x) { return tf32(x).bits; }
static std::uint32_t code(float x) { return tf32(x).bits >> 13; } // s eeeeeeee mmmmmmmmmm

TEST_CASE("all 524,288 codes: the float that a tf32 is") {
    std::size_t bad = 0;
    for (std::uint32_t c = 0; c < (1u << 19); ++c) {
        const bool nan = (c & 0x3FFFF) > 0x3FC00;
        const std::uint32_t wanted = c << 13 | (nan ? 0x00400000 : 0);
        bad += bits_of(float(tf32::from_bits(c << 13))) != wanted;
        bad += bits(float_of(c << 13)) != wanted; // narrowing what is narrow
    }
    CHECK(bad == 0);
}

TEST_CASE("narrowing agrees with the model on codes, ties and many others") {
    const model::shape f = model::shape_of<tf32>();
    const auto inputs = model::inputs(f, 5, 30000);
    CHECK(inputs.size() > 800000);
    CHECK(model::wrong(inputs, f, code) == 0);
    std::size_t low_bits = 0, other_value = 0;
    for (float x : inputs) {
        low_bits += (bits(x) & 0x1FFF) != 0;
        other_value += bits_of(round_tf32(x)) != bits(x);
    }
    CHECK(low_bits == 0);
    CHECK(other_value == 0);

    using namespace model; // sabotage: each must be found out
    CHECK(wrong(inputs, f, [](float x) { return bits_of(x) >> 13; }) > 0); // what an mma may read
    CHECK(wrong(inputs, f, [](float x) { return (bits_of(x) + 0x1000) >> 13; }) > 0); // cvt.rna
    CHECK(wrong(inputs, f, forgets_nan<8, 10>) > 0);
    CHECK(wrong(inputs, f, flushes<8, 10>) > 0);
}

TEST_CASE("the table of tricky inputs") {
    const auto rows = model::table("tricky_tf32.csv");
    CHECK(rows.size() == 16);
    CHECK(model::wrong(rows, bits) == 0);
    CHECK(model::wrong(rows, [](float x) { return bits_of(x) & 0xFFFFE000; }) > 0); // sabotage
    CHECK(model::wrong(rows, [](float x) { return (bits_of(x) + 0x1000) & 0xFFFFE000; }) > 0);
}

TEST_CASE("a stride through all 2^32 bit patterns") {
    const model::shape f = model::shape_of<tf32>();
    std::size_t bad = 0;
    for (std::uint64_t b = 0; b < (1ull << 32); b += 16381)
        bad += !model::right(float_of(std::uint32_t(b)), code(float_of(std::uint32_t(b))), f);
    CHECK(bad == 0);
}

TEST_CASE("constants") {
    CHECK(bits(tf32::max) == 0x7F7FE000);
    CHECK(bits(tf32::min_normal) == 0x00800000);
    CHECK(bits(tf32::min_subnormal) == 0x00002000);
    CHECK(bits(1 + tf32::epsilon) == 0x3F802000);
    CHECK(bits(float_of(0x7F7FF000)) == 0x7F800000);
}
