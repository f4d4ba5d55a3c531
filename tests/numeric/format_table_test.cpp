// SPDX-License-Identifier: MIT
#include "mpt/numeric/e8m0.hpp"         // e8m0
#include "mpt/numeric/format_table.hpp" // format_table
#include "mpt/numeric/fp4_fp6.hpp"      // e2m1, e2m3, e3m2
#include "mpt/numeric/fp8.hpp"          // e4m3, e5m2
#include "mpt/numeric/int8.hpp"         // quantize_int8
#include "mpt/numeric/scalar.hpp"       // format, fp16, bf16, tf32

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

using namespace mpt;

static format_row row(const char* name) {
    for (const format_row& r : format_table)
        if (std::strcmp(r.name, name) == 0) return r;
    FAIL("no row " << name);
    return {};
}

/// What the codes of a format decode to.
struct decoded {
    double max = 0, least = std::numeric_limits<double>::infinity(), epsilon = least;
    bool has_infinity = false, has_nan = false;
    void add(double v) {
        has_infinity = has_infinity || std::isinf(v);
        has_nan = has_nan || std::isnan(v);
        if (!std::isfinite(v)) return;
        if (v > max) max = v;
        if (v > 0 && v < least) least = v;
        if (v > 1 && v - 1 < epsilon) epsilon = v - 1;
    }
};

/// The facts in which a row differs from what was decoded.
static int differences(const format_row& r, const decoded& d) {
    return (r.max != d.max) + (r.min_subnormal != d.least) + (r.epsilon != d.epsilon) +
           (r.has_infinity != d.has_infinity) + (r.has_nan != d.has_nan);
}

/// And from what a format of these exponent and mantissa bits is by definition.
static int differences(const format_row& r) {
    const int bias = (1 << (r.exponent_bits - 1)) - 1;
    return (r.bias != bias) + (r.min_normal != std::ldexp(1, 1 - bias)) +
           (r.min_subnormal != std::ldexp(1, 1 - bias - r.mantissa_bits)) +
           (r.epsilon != std::ldexp(1, -r.mantissa_bits)) +
           (r.bits != 1 + r.exponent_bits + r.mantissa_bits);
}

template <class T>
static void check_type(std::uint32_t codes, int shift = 0) {
    using f = format<T>;
    const format_row r = row(f::name);
    CAPTURE(std::string(r.name));
    CHECK(r.exponent_bits == f::exponent_bits);
    CHECK(r.mantissa_bits == f::mantissa_bits);
    CHECK(r.max == double(f::max));
    CHECK(r.min_normal == double(f::min_normal));
    CHECK(r.min_subnormal == double(f::min_subnormal));
    CHECK(r.epsilon == double(f::epsilon));
    CHECK(differences(r) == 0);
    decoded d;
    for (std::uint32_t code = 0; code < codes; ++code)
        d.add(double(static_cast<float>(T::from_bits(decltype(T::bits)(code << shift)))));
    CHECK(codes == 1u << r.bits);
    CHECK(differences(r, d) == 0);

    format_row wrong = r; // sabotage: each fact, changed, is noticed
    wrong.max /= 2;
    wrong.min_subnormal *= 2;
    wrong.epsilon /= 2;
    wrong.has_infinity = !wrong.has_infinity;
    wrong.has_nan = !wrong.has_nan;
    CHECK(differences(wrong, d) == 5);
}

TEST_CASE("each row is what the codes of its type decode to") {
    check_type<fp16>(1u << 16);
    check_type<bf16>(1u << 16);
    check_type<tf32>(1u << 19, 13);
    check_type<e5m2>(256);
    check_type<e4m3>(256);
    check_type<e3m2>(64);
    check_type<e2m3>(64);
    check_type<e2m1>(16);
}

TEST_CASE("fp32 is what the compiler says") {
    using limits = std::numeric_limits<float>;
    const format_row r = row("fp32");
    CHECK(differences(r) == 0);
    CHECK(r.max == double(limits::max()));
    CHECK(r.min_normal == double(limits::min()));
    CHECK(r.min_subnormal == double(limits::denorm_min()));
    CHECK(r.epsilon == double(limits::epsilon()));
    CHECK((r.has_infinity && r.has_nan));
    CHECK(r.mantissa_bits == limits::digits - 1);
}

TEST_CASE("e8m0: powers of two, one NaN, no zero") {
    const format_row r = row("e8m0");
    decoded d;
    for (int code = 0; code < 256; ++code)
        d.add(double(float(e8m0::from_bits(std::uint8_t(code)))));
    CHECK(differences(r, d) == 0);
    CHECK(r.min_normal == r.min_subnormal);
    CHECK(r.bits == r.exponent_bits + r.mantissa_bits); // no sign
    CHECK(r.bias == 127);
}

TEST_CASE("int8: whole numbers, in units of their step") {
    const format_row r = row("int8");
    decoded d;
    for (int q = -127; q <= 127; ++q) d.add(double(dequantize_int8(std::int8_t(q), 127)));
    CHECK(differences(r, d) == 0);
    CHECK(r.min_normal == 1);
    CHECK(r.bits == 1 + r.mantissa_bits);
}

TEST_CASE("bytes: bits, packed; tf32 alone lies in a wider word") {
    for (const format_row& r : format_table) {
        CAPTURE(std::string(r.name));
        CHECK(r.bytes * 8 == (r.name == std::string("tf32") ? 32 : r.bits));
    }
    CHECK(std::size(format_table) == 11);
}

TEST_CASE("costs: published ones only, in parts of fp32's") {
    int published = 0;
    for (const format_row& r : format_table) {
        CAPTURE(std::string(r.name));
        const double cost[4] = {r.cost.energy.add, r.cost.energy.multiply, r.cost.area.add,
                                r.cost.area.multiply};
        published += cost[0] > 0;
        for (double c : cost) { // all four or none
            CHECK((c > 0) == (cost[0] > 0));
            CHECK(c <= 1);
        }
    }
    CHECK(published == 3); // fp32, fp16, int8
    // The figures of the card. "16 bits save 75 % of the energy" is more than either saves.
    CHECK(row("fp16").cost.energy.multiply == doctest::Approx(0.297).epsilon(0.002));
    CHECK(row("fp16").cost.energy.add == doctest::Approx(0.444).epsilon(0.002));
    CHECK(640 / 3.7 == doctest::Approx(173).epsilon(0.001));
}
