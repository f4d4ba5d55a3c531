// SPDX-License-Identifier: MIT
#include "mpt/numeric/fp4_fp6.hpp" // e2m1, e2m3, e3m2, stochastic_e2m1

#include "mpt/numeric/rounding_modes.hpp" // half_away, toward_zero
#include "mpt/numeric/stochastic.hpp"     // stochastic

#include "mx_model.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <type_traits>

using namespace mpt;

static_assert(sizeof(e2m1) == 1 && std::is_trivial_v<e2m1>);
static_assert(e2m1(5.0f).bits == 6 && float(e2m1::from_bits(0xF)) == -6.0f);
static_assert(e3m2(std::numeric_limits<float>::infinity()).bits == 0x1F); // constants, too
static_assert(!std::is_constructible_v<e2m1, double> && !std::is_constructible_v<e2m1, int>);
static_assert(!std::is_convertible_v<float, e2m1> && !std::is_convertible_v<e2m1, float>);
static_assert(e2m1::max == 6 && e2m1::min_normal == 1 && e2m1::min_subnormal == 0.5f);
static_assert(e2m3::max == 7.5f && e2m3::min_normal == 1 && e2m3::min_subnormal == 0.125f);
static_assert(e3m2::max == 28 && e3m2::min_normal == 0.25f && e3m2::min_subnormal == 0.0625f);
static_assert(std::is_same_v<wide_t<e2m1>, float> && format<e2m1>::epsilon == 0.5f);

template <class T>
static std::uint32_t code(float x) {
    return T(x).bits;
}

// The definition: the nearest of all values.
template <class T>
static std::uint32_t by_distance(float x) {
    const auto e = mx_model::by_name(name<T>());
    if (std::isnan(x)) return T::max_code;
    if (std::isinf(x)) return T::max_code | (std::signbit(x) ? e.sign_bit : 0);
    return std::uint32_t(mx_model::nearest(x, 1, e.values) | (std::signbit(x) ? e.sign_bit : 0));
}
template <class T>
static std::size_t wrong_by_distance(std::uint32_t (*convert)(float)) {
    std::size_t count = 0;
    for (std::uint64_t b = 0; b < (1ull << 32); b += 262139) { // prime: all low bits
        const float x = float_of(std::uint32_t(b));
        count += convert(x) != by_distance<T>(x);
    }
    for (std::uint32_t i = 0; i < 20000; ++i) { // near the values
        const philox4 r = philox({{i, 0, 0, 0}}, 4, 6);
        const float x = float_of((r.x[0] & 0x80000000) | (0x3C800000 + r.x[1] % 0x06000000));
        count += convert(x) != by_distance<T>(x);
    }
    return count;
}

// Wrong in ways seen in the wild.
template <class T>
static std::uint32_t chain(float x) { // x < 0.25 ? 0 : x < 0.75 ? 1 ...: ties always go up
    std::uint32_t c = 0;
    const float a = std::fabs(x);
    const auto value = [](std::uint32_t k) { return float(T::from_bits(std::uint8_t(k))); };
    while (c < T::max_code && !(a < (value(c) + value(c + 1)) / 2)) ++c;
    return c | (std::signbit(x) && !std::isnan(x) ? T::max_code + 1 : 0);
}
template <class T>
static std::uint32_t truncated(float x) {
    std::uint32_t c = 0;
    while (c < T::max_code && float(T::from_bits(std::uint8_t(c + 1))) <= std::fabs(x)) ++c;
    return std::isnan(x) ? T::max_code : c | (std::signbit(x) ? T::max_code + 1 : 0);
}
template <class T>
static std::uint32_t signed_nan(float x) { // keeps the sign of a NaN
    return T(x).bits | (std::isnan(x) && std::signbit(x) ? T::max_code + 1 : 0);
}
template <class T>
static std::uint32_t no_minus_zero(float x) {
    return T(x).bits == T::max_code + 1 ? 0 : T(x).bits;
}

// Inputs for which another rounding does not give what the chain of comparisons (ties up) or the
// cut (toward zero) gives.
template <class T>
static std::size_t wrong_modes(T (*away)(float), T (*zero)(float)) {
    std::size_t count = 0;
    for (const auto& r : mx_model::table(std::string("edge_") + name<T>() + ".csv"))
        if (const float x = float_of(mx_model::hex(r[0])); !std::isnan(x))
            count += away(x).bits != chain<T>(x) || zero(x).bits != truncated<T>(x);
    return count;
}

template <class T>
static void check_format(std::size_t edges, std::size_t tricky) {
    const std::string name = mpt::name<T>();
    CAPTURE(name);
    CHECK(mx_model::table("decode_" + name + ".csv").size() == 2 * (T::max_code + 1));
    CHECK(mx_model::wrong_values(name, [](std::uint8_t c) { return float(T::from_bits(c)); }) == 0);
    const std::string edge = "edge_" + name + ".csv", hard = "tricky_" + name + ".csv";
    CHECK(mx_model::table(edge).size() == edges);
    CHECK(mx_model::table(hard).size() == tricky);
    CHECK(mx_model::wrong_codes(edge, code<T>) == 0);
    CHECK(mx_model::wrong_codes(hard, code<T>) == 0);
    CHECK(mx_model::wrong_runs(name, code<T>) == 0);
    CHECK(wrong_by_distance<T>(code<T>) == 0);

    CHECK(wrong_modes<T>(half_away<T>, toward_zero<T>) == 0);
    CHECK(wrong_modes<T>(toward_zero<T>, half_away<T>) > 0); // sabotage
    CHECK(stochastic<T>(-1.0f, 0xFFFFFFFF).bits == code<T>(-1.0f));
    CHECK(stochastic<T>(1 + T::epsilon / 2, 0x7FFFFFFF).bits == code<T>(1.0f));
    CHECK(stochastic<T>(1 + T::epsilon / 2, 0x80000000).bits == code<T>(1 + T::epsilon));

    for (const auto wrong : {chain<T>, truncated<T>, signed_nan<T>, no_minus_zero<T>}) { // sabotage
        CHECK(mx_model::wrong_codes(edge, wrong) > 0);
        CHECK(mx_model::wrong_runs(name, wrong) > 0);
    }
    CHECK(mx_model::wrong_codes(hard, chain<T>) > 0);
    CHECK(wrong_by_distance<T>(truncated<T>) > 0);
    CHECK(wrong_by_distance<T>(no_minus_zero<T>) > 0);
    CHECK(mx_model::wrong_values(name, [](std::uint8_t c) { // without subnormals
              const float x = float(T::from_bits(c));
              return std::fabs(x) < T::min_normal ? 0 * x : x;
          }) > 0);

    for (std::uint32_t c = 0; c < 2 * (T::max_code + 1); ++c) // back again
        CHECK(code<T>(float(T::from_bits(std::uint8_t(c)))) == c);
    CHECK(code<T>(T::max) == T::max_code);
    CHECK(code<T>(T::min_normal) == 1u << T::mantissa_bits);
    CHECK(code<T>(T::min_subnormal) == 1);
    CHECK(code<T>(1 + T::epsilon) == code<T>(1) + 1);
}

TEST_CASE("e2m1: values, edges, all runs of equal codes") {
    check_format<e2m1>(108, 19);
    // sabotage: exponent 0 read like the others: exactly 0, -0, 0.5 and -0.5 are wrong
    CHECK(mx_model::wrong_values("e2m1", [](std::uint8_t c) {
              return float_of(std::uint32_t(c) >> 3 << 31 | (((c & 7u) << 22) + (126u << 23)));
          }) == 4);
}
TEST_CASE("e2m3: values, edges, all runs of equal codes") { check_format<e2m3>(396, 13); }
TEST_CASE("e3m2: values, edges, all runs of equal codes") { check_format<e3m2>(396, 14); }

static std::size_t wrong_chances(std::uint32_t (*round)(float, std::uint32_t)) {
    std::size_t count = 0;
    for (const auto& r : mx_model::table("sr_e2m1.csv"))
        count += round(float_of(mx_model::hex(r[0])), mx_model::hex(r[1])) != mx_model::hex(r[2]);
    return count;
}
static std::uint32_t by_chance(float x, std::uint32_t r) {
    return stochastic_e2m1(x, std::uint16_t(r)).bits;
}

TEST_CASE("stochastic rounding to e2m1: the table, and the mean") {
    CHECK(mx_model::table("sr_e2m1.csv").size() == 98);
    CHECK(wrong_chances(by_chance) == 0);
    // sabotage: one random number too few goes up; the chance upside down; nearest
    const auto off_by_one = [](float x, std::uint32_t r) { return by_chance(x, r + (r < 65535)); };
    CHECK(wrong_chances(off_by_one) > 0);
    CHECK(wrong_chances([](float x, std::uint32_t r) { return by_chance(x, 65535 - r); }) > 0);
    CHECK(wrong_chances([](float x, std::uint32_t) -> std::uint32_t { return e2m1(x).bits; }) > 0);

    // Over all 65536 random numbers the mean is x, but for less than one step of 2^-16 upwards.
    for (const float x : {0.1f, 0.26f, 0.7f, 1.9f, 3.3f, 5.999f, -2.2f}) {
        double sum = 0, nearest = 0;
        for (std::uint32_t r = 0; r < 65536; ++r) {
            sum += double(float(stochastic_e2m1(x, std::uint16_t(r))));
            nearest += double(float(e2m1(x)));
        }
        const double bound = 2 * 0x1p-16; // the widest gap, 4 to 6, times 2^-16
        CHECK(std::fabs(sum / 65536 - double(x)) < bound);
        CHECK(std::fabs(nearest / 65536 - double(x)) > bound); // sabotage
    }
    CHECK(stochastic_e2m1(7, 65535).bits == 7);
    CHECK(stochastic_e2m1(-0.0f, 0).bits == 8);
    CHECK(stochastic_e2m1(3, 0).bits == 5); // a number of the format stays
}
