// SPDX-License-Identifier: MIT
#include "mpt/numeric/fp4_fp6.hpp" // e2m1, e2m3, e3m2
#include "mpt/numeric/fp8.hpp"     // e4m3, e5m2
#include "mpt/numeric/mx.hpp"      // mx_quantize, mx_dequantize, mxint8

#include "mx_model.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <map>
#include <string>
#include <type_traits>

using namespace mpt;
using mx_model::block;

static_assert(sizeof(mx_block<e4m3>) == 33 && sizeof(mxint8) == 1 && std::is_trivial_v<mxint8>);
static_assert(mx_bits<e4m3> == 8.25 && mx_bits<mxint8> == 8.25);
static_assert(mx_bits<e3m2> == 6.25 && mx_bits<e2m1> == 4.25);
static_assert(mx_scale<e2m1>(6, mx_rule::rceil).exponent() == 0); // a constant, too

static const std::array<std::string, 4> rules = {"floor", "ceil", "even", "rceil"};
static mx_rule rule_of(const std::string& name) {
    return name == "floor"  ? mx_rule::floor
           : name == "ceil" ? mx_rule::ceil
           : name == "even" ? mx_rule::even
                            : mx_rule::rceil;
}

template <class T>
static block as_block(const mx_block<T>& b, int n) {
    block out{b.scale.bits, {}, std::vector<float>(std::size_t(n))};
    for (int i = 0; i < n; ++i) out.codes.push_back(b.elements[i].bits);
    mx_dequantize(b, out.values.data(), n);
    return out;
}
template <class T>
static block quantised(const std::vector<float>& x, mx_rule rule) {
    const int n = int(x.size());
    return as_block(mx_quantize<T>(x.data(), n, rule), n);
}
using quantiser = block (*)(const std::vector<float>&, mx_rule);
template <class F>
static void for_each_element(F f) { // f(name, T{})
    f("e4m3", e4m3{}), f("e5m2", e5m2{}), f("e3m2", e3m2{});
    f("e2m3", e2m3{}), f("e2m1", e2m1{}), f("int8", mxint8{});
}

static std::map<std::string, std::vector<float>> inputs() {
    std::map<std::string, std::vector<float>> all;
    for (const auto& r : mx_model::table("blocks_in.csv")) all[r[0]] = mx_model::floats(r[2]);
    return all;
}
// Blocks of mx_RULE.csv with element NAME that differ in scale, codes or values.
static std::size_t wrong_blocks(const std::string& rule, const std::string& name, quantiser f) {
    const auto in = inputs();
    std::size_t count = 0;
    for (const auto& r : mx_model::table("mx_" + rule + ".csv"))
        if (r[1] == name) {
            const block wanted{mx_model::hex(r[2]), mx_model::hexes(r[3], 2),
                               mx_model::floats(r[4])};
            count += !(f(in.at(r[0]), rule_of(rule)) == wanted);
        }
    return count;
}

// ---- wrong in ways seen in the wild ----------------------------------------------------------

// An amax that passes over NaN.
template <class T>
static block skips_nan(const std::vector<float>& x, mx_rule rule) {
    float most = 0;
    for (const float v : x) most = std::fmax(most, std::fabs(v));
    mx_block<T> b{};
    b.scale = std::isinf(most) ? e8m0::from_bits(0xFF)
              : most > 0       ? mx_scale<T>(most, rule)
                               : e8m0{};
    for (std::size_t i = 0; i < x.size() && !b.scale.is_nan(); ++i)
        b.elements[i] = T(times_power(x[i], -b.scale.exponent()));
    return as_block(b, int(x.size()));
}
// The scale of another rule.
template <class T, mx_rule other>
static block always(const std::vector<float>& x, mx_rule) {
    return quantised<T>(x, other);
}
// Byte 00 as the float b << 23, that is 0.
template <class T>
static block loses_byte_0(const std::vector<float>& x, mx_rule rule) {
    block b = quantised<T>(x, rule);
    if (b.scale == 0)
        for (float& v : b.values) v *= 0;
    return b;
}
// RCEIL as ceil(log2(fp32(amax / max))).
template <class T>
static block quotient_in_fp32(const std::vector<float>& x, mx_rule) {
    const float most = block_amax(x.data(), int(x.size()));
    mx_block<T> b = mx_quantize<T>(x.data(), int(x.size()), mx_rule::rceil);
    if (std::isfinite(most)) b.scale = e8m0::up(most / T::max);
    return as_block(b, int(x.size()));
}
// The scale of the elements' own power, without looking at the format's emax.
template <class T>
static block forgets_emax(const std::vector<float>& x, mx_rule rule) {
    mx_block<T> b = mx_quantize<T>(x.data(), int(x.size()), rule);
    const float most = block_amax(x.data(), int(x.size()));
    if (std::isfinite(most) && most > 0) b.scale = e8m0::down(most);
    return as_block(b, int(x.size()));
}

TEST_CASE("MXINT8's element: values and all runs of equal codes") {
    const auto code = [](float x) { return mxint8(x).bits; };
    const auto value = [](std::uint8_t c) {
        mxint8 x{};
        x.bits = c;
        return float(x);
    };
    CHECK(mx_model::table("decode_mxint8.csv").size() == 256);
    CHECK(mx_model::wrong_values("mxint8", value) == 0);
    CHECK(mx_model::table("runs_mxint8.csv").size() == 258);
    CHECK(mx_model::wrong_runs("mxint8", code) == 0);
    CHECK(float(mxint8(mxint8::max)) == mxint8::max);
    // sabotage: unsigned bytes; half away from zero; truncation; -128; -0
    CHECK(mx_model::wrong_values("mxint8", [](std::uint8_t c) { return float(c) / 64; }) > 0);
    const auto rounded_by = [](float (*round)(float), float least) {
        return [=](float x) {
            const float q = std::isnan(x) ? 127 : std::fmin(127, std::fmax(least, round(x * 64)));
            return std::uint8_t(int(q));
        };
    };
    CHECK(mx_model::wrong_runs("mxint8", rounded_by(std::nearbyint, -127)) == 0); // the definition
    CHECK(mx_model::wrong_runs("mxint8", rounded_by(std::round, -127)) > 0);
    CHECK(mx_model::wrong_runs("mxint8", rounded_by(std::trunc, -127)) > 0);
    CHECK(mx_model::wrong_runs("mxint8", rounded_by(std::nearbyint, -128)) > 0);
}

TEST_CASE("the tables: 51 blocks, 6 elements, 4 rules") {
    CHECK(inputs().size() == 51);
    for (const std::string& rule : rules) {
        CAPTURE(rule);
        CHECK(mx_model::table("mx_" + rule + ".csv").size() == 6 * 51);
        for_each_element([&](const std::string& name, auto t) {
            using T = decltype(t);
            CAPTURE(name);
            CHECK(wrong_blocks(rule, name, quantised<T>) == 0);
            CHECK(wrong_blocks(rule, name, skips_nan<T>) > 0); // sabotage
            CHECK(wrong_blocks(rule, name, loses_byte_0<T>) > 0);
            if (name != "int8") CHECK(wrong_blocks(rule, name, forgets_emax<T>) > 0);
            if (rule != "floor") CHECK(wrong_blocks(rule, name, always<T, mx_rule::floor>) > 0);
            if (rule == "rceil") CHECK(wrong_blocks(rule, name, always<T, mx_rule::ceil>) > 0);
            if (rule == "even" && name != "int8") // 127/64 and 2 - 2^-7: no input lies between them
                CHECK(wrong_blocks(rule, name, always<T, mx_rule::rceil>) > 0);
        });
    }
    CHECK(wrong_blocks("rceil", "e4m3", quotient_in_fp32<e4m3>) == 1); // sabotage: row 25 alone
}

TEST_CASE("random blocks, whole and short, against the definition") {
    std::map<std::string, std::size_t> wrong, blocks;
    for_each_element([&](const std::string& name, auto t) {
        using T = decltype(t);
        const mx_model::element e = mx_model::by_name(name);
        for (std::uint32_t i = 0; i < 1000; ++i)
            for (const int n : {32, 17, 1}) {
                const std::vector<float> x = mx_model::random_block(i * 3 + std::uint32_t(n), n, e);
                for (const std::string& rule : rules) {
                    const block wanted = mx_model::mx(x, e, rule);
                    wrong["none"] += !(quantised<T>(x, rule_of(rule)) == wanted);
                    wrong["floor"] += !(always<T, mx_rule::floor>(x, rule_of(rule)) == wanted);
                    wrong["rceil"] += !(always<T, mx_rule::rceil>(x, rule_of(rule)) == wanted);
                    ++blocks["all"];
                }
            }
    });
    CHECK(blocks["all"] == 72000);
    CHECK(wrong["none"] == 0);
    CHECK(wrong["floor"] > 10000); // sabotage
    CHECK(wrong["rceil"] > 10000);
}

TEST_CASE("a NaN or an infinity in any place makes the block NaN, and only its own") {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), float_of(0xFF800001),
                            std::numeric_limits<float>::infinity()})
        for (const std::size_t place : {0u, 1u, 16u, 31u}) {
            std::vector<float> x(32, 1.5f);
            x[3] = -2, x[place] = bad;
            const block b = quantised<e2m1>(x, mx_rule::floor);
            CHECK(b.scale == 0xFF);
            std::size_t numbers = 0, codes = 0;
            for (std::size_t i = 0; i < 32; ++i)
                numbers += !std::isnan(b.values[i]), codes += b.codes[i];
            CHECK(numbers == 0);
            CHECK(codes == 0);
            if (std::isnan(bad)) // sabotage
                CHECK(skips_nan<e2m1>(x, mx_rule::floor).scale != 0xFF);
        }
}

TEST_CASE("zeros and tiny numbers") {
    const block zeros = quantised<e4m3>({0.0f, -0.0f, 0.0f}, mx_rule::floor);
    CHECK(zeros.scale == 0);
    CHECK(zeros.codes == std::vector<std::uint32_t>{0, 0x80, 0});
    CHECK(std::signbit(zeros.values[1]));
    CHECK(quantised<mxint8>({-0.0f}, mx_rule::floor).codes[0] == 0); // it has no -0
    const block tiny = quantised<e2m1>({0x1p-149f, 0x1p-127f}, mx_rule::floor);
    CHECK(tiny.scale == 0);
    CHECK(tiny.values == std::vector<float>{0, 0x1p-127f});
    CHECK(quantised<e2m1>({}, mx_rule::floor).values.empty());
}

TEST_CASE("FLOOR clips at most a quarter, RCEIL nothing") {
    double clipped = 0, by_rceil = 0;
    for (std::uint32_t m = 0; m < 0x800000; m += 4099) {
        const float x = float_of(0x3F800000 | m);
        const block f = quantised<e2m1>({x}, mx_rule::floor);
        const block r = quantised<e2m1>({x}, mx_rule::rceil);
        clipped = std::fmax(clipped, 1 - f.values[0] / double(x));
        by_rceil = std::fmax(by_rceil, 1 - r.values[0] / double(x));
    }
    CHECK(clipped > 0.2499);
    CHECK(clipped < 0.25);  // 1 - 6 / 8
    CHECK(by_rceil <= 0.2); // 1 - 4 / 5: rounding alone, at the tie between 4 and 6
}

TEST_CASE("RCEIL and the quotient in fp32 part at one input for e4m3") {
    const float x = float_of(0x04600001); // the float after 448 * 2^-127
    CHECK(mx_scale<e4m3>(x, mx_rule::rceil).bits == 1);
    CHECK(e8m0::up(x / 448.0f).bits == 0);
}
