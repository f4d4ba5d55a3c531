// SPDX-License-Identifier: MIT
#include "mpt/numeric/fp8.hpp" // e4m3, e5m2

#include "model.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <type_traits>

using namespace mpt;

static_assert(sizeof(e4m3) == 1 && std::is_trivial_v<e4m3>);
static_assert(sizeof(e5m2) == 1 && std::is_trivial_v<e5m2>);
static_assert(e4m3(1.0f).bits == 0x38 && float(e4m3::from_bits(0xC0)) == -2.0f);
static_assert(e5m2(1.0f).bits == 0x3C && float(e5m2::from_bits(0xC0)) == -2.0f);
static_assert(!std::is_constructible_v<e4m3, double> && !std::is_constructible_v<e4m3, int>);
static_assert(!std::is_constructible_v<e5m2, double> && !std::is_constructible_v<e5m2, int>);
static_assert(!std::is_constructible_v<e4m3, e5m2> && !std::is_convertible_v<float, e4m3>);

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet = std::numeric_limits<float>::quiet_NaN();
static_assert(e4m3(infinity).bits == 0x7E && e4m3::unsaturated(-infinity).bits == 0xFF);
static_assert(e5m2(infinity).bits == 0x7B && e5m2::unsaturated(-infinity).bits == 0xFC);
static_assert(e4m3(quiet).bits == 0x7F && e5m2(quiet).bits == 0x7E);

template <class T>
static std::uint32_t saturated(float x) {
    return T(x).bits;
}
template <class T>
static std::uint32_t unsaturated(float x) {
    return T::unsaturated(x).bits;
}

template <class T>
constexpr model::shape shape(bool saturates) {
    constexpr bool all_numbers = std::is_same_v<T, e4m3>;
    return {T::exponent_bits, T::mantissa_bits,
            all_numbers ? model::specials::one_nan : model::specials::ieee, saturates};
}
template <class T>
static std::string file(const char* kind, const char* rest) {
    return kind + std::string(std::is_same_v<T, e4m3> ? "_e4m3fn" : "_e5m2") + rest;
}

// Conversions that are wrong in ways seen in libraries. Normal numbers only, the rest rightly.
template <class T>
static std::uint32_t with_rounding(float x, std::uint32_t (*shift)(std::uint32_t, int)) {
    using to = bit_layout<T::exponent_bits, T::mantissa_bits>;
    const std::uint32_t a = bits_of(x) & fp32_magnitude;
    if (a > bits_of(T::max) || a < bits_of(T::min_normal)) return T::unsaturated(x).bits;
    return bits_of(x) >> 31 << 7 | shift(a - to::rebias, to::dropped);
}
template <class T>
static std::uint32_t truncates(float x) {
    return with_rounding<T>(x, model::truncate);
}
template <class T>
static std::uint32_t half_away(float x) {
    return with_rounding<T>(x, model::half_away);
}
template <class T>
static std::uint32_t decides_first(float x) { // 449 is larger than 448; but 448 is the nearest
    if (std::fabs(x) > T::max) return T::unsaturated(std::copysign(infinity, x)).bits;
    return T(x).bits;
}
template <class T>
static std::uint32_t saturates_nan(float x) {
    return T(std::isnan(x) ? std::copysign(T::max, x) : x).bits;
}
static std::uint32_t as_ieee(float x) { // e4m3 with infinity: numbers end at 240
    return narrow_code<4, 3>(bits_of(x));
}

template <class T>
static void check_decoding() {
    CAPTURE(name<T>());
    const auto rows = model::table(file<T>("decode", ".csv"));
    CHECK(rows.size() == 256);
    std::size_t bad = 0, bad_value = 0, bad_back = 0, sabotage = 0;
    for (model::row r : rows) {
        const T x = T::from_bits(std::uint8_t(r.in));
        const double v = model::value(r.in, shape<T>(false));
        bad += bits_of(float(x)) != r.out;
        bad_value += std::isnan(v) ? !std::isnan(float(x)) : double(float(x)) != v;
        const std::uint32_t back = std::isnan(v) ? r.in | 2 : r.in; // a NaN becomes quiet
        bad_back += T::unsaturated(float(x)).bits != back;
        sabotage += widen_code<4, 3>(r.in) != r.out; // e4m3 as IEEE would have it
    }
    CHECK(bad == 0);
    CHECK(bad_value == 0);
    CHECK(bad_back == 0);
    CHECK(sabotage > 0);
}

TEST_CASE("all 256 codes: their values, and back") {
    check_decoding<e4m3>();
    check_decoding<e5m2>();
}

template <class T>
static void check_tables() {
    CAPTURE(name<T>());
    for (const auto& rows : {model::binary_table(file<T>("edge", "_nosat.bin")),
                             model::table(file<T>("tricky", ".csv"), 1)}) {
        CHECK(rows.size() >= 16);
        CHECK(model::wrong(rows, unsaturated<T>) == 0);
        CHECK(model::wrong(rows, saturated<T>) > 0); // sabotage: each must be found out
        CHECK(model::wrong(rows, decides_first<T>) > 0);
        CHECK(model::wrong(rows, truncates<T>) > 0);
        CHECK(model::wrong(rows, half_away<T>) > 0);
    }
    for (const auto& rows : {model::binary_table(file<T>("edge", "_sat.bin")),
                             model::table(file<T>("tricky", ".csv"), 2)}) {
        CHECK(rows.size() >= 16);
        CHECK(model::wrong(rows, saturated<T>) == 0);
        CHECK(model::wrong(rows, unsaturated<T>) > 0); // sabotage
        CHECK(model::wrong(rows, saturates_nan<T>) > 0);
    }
    CHECK(model::binary_table(file<T>("edge", "_sat.bin")).size() > 1500);
}

TEST_CASE("the tables of edges and of tricky inputs, in both modes") {
    check_tables<e4m3>();
    check_tables<e5m2>();
    CHECK(model::wrong(model::table("tricky_e4m3fn.csv", 1), as_ieee) > 0); // sabotage
}

template <class T>
static void check_model() {
    CAPTURE(name<T>());
    const auto inputs = model::inputs(shape<T>(true), 1, 5000);
    CHECK(inputs.size() > 75000);
    CHECK(model::wrong(inputs, shape<T>(true), saturated<T>) == 0);
    CHECK(model::wrong(inputs, shape<T>(false), unsaturated<T>) == 0);
    CHECK(model::wrong(inputs, shape<T>(true), saturates_nan<T>) > 0); // sabotage
    CHECK(model::wrong(inputs, shape<T>(false), decides_first<T>) > 0);
    CHECK(model::wrong(inputs, shape<T>(false), saturated<T>) > 0);

    std::size_t bad = 0;
    for (std::uint64_t b = 0; b < (1ull << 32); b += 16381) {
        const float x = float_of(std::uint32_t(b));
        bad += !model::right(x, saturated<T>(x), shape<T>(true));
        bad += !model::right(x, unsaturated<T>(x), shape<T>(false));
    }
    CHECK(bad == 0);
}

TEST_CASE("narrowing agrees with the model on every code, every tie, and a stride through fp32") {
    check_model<e4m3>();
    check_model<e5m2>();
}

TEST_CASE("constants") {
    CHECK(saturated<e4m3>(e4m3::max) == 0x7E);
    CHECK(saturated<e4m3>(e4m3::min_normal) == 0x08);
    CHECK(saturated<e4m3>(e4m3::min_subnormal) == 0x01);
    CHECK(saturated<e4m3>(1 + e4m3::epsilon) == 0x39);
    CHECK(saturated<e5m2>(e5m2::max) == 0x7B);
    CHECK(saturated<e5m2>(e5m2::min_normal) == 0x04);
    CHECK(saturated<e5m2>(e5m2::min_subnormal) == 0x01);
    CHECK(saturated<e5m2>(1 + e5m2::epsilon) == 0x3D);
}

TEST_CASE("464 is a tie and rounds to 448; one ulp more overflows") {
    CHECK(unsaturated<e4m3>(464.0f) == 0x7E);
    CHECK(unsaturated<e4m3>(std::nextafter(464.0f, 500.0f)) == 0x7F);
    CHECK(saturated<e4m3>(std::nextafter(464.0f, 500.0f)) == 0x7E);
    CHECK(unsaturated<e4m3>(500.0f) == 0x7F);
    CHECK(saturated<e4m3>(-500.0f) == 0xFE);
    CHECK(unsaturated<e4m3>(-465.0f) == 0xFF);
    CHECK(saturated<e5m2>(58000.0f) == 0x7B);
    CHECK(unsaturated<e5m2>(58000.0f) == 0x7B); // nearer to 57344 than to 65536
    CHECK(unsaturated<e5m2>(61440.0f) == 0x7C);
    CHECK(unsaturated<e5m2>(std::nextafter(61440.0f, 0.0f)) == 0x7B);
}

TEST_CASE("a NaN stays one, whatever its payload and whether the format saturates") {
    for (std::uint32_t bits : {0x7F800001u, 0x7FFFFFFFu, 0xFF800001u, 0xFFC00000u, 0x7FBFFFFFu}) {
        const float x = float_of(bits);
        CHECK(std::isnan(float(e4m3(x))));
        CHECK(std::isnan(float(e4m3::unsaturated(x))));
        CHECK(std::isnan(float(e5m2(x))));
        CHECK(std::isnan(float(e5m2::unsaturated(x))));
        CHECK(std::signbit(float(e4m3(x))) == std::signbit(x));
        CHECK(std::signbit(float(e5m2(x))) == std::signbit(x));
    }
}

TEST_CASE("256 and 448 are different numbers: above 240 the top exponent is used") {
    CHECK(float(e4m3(256.0f)) == 256.0f);
    CHECK(float(e4m3(288.0f)) == 288.0f);
    CHECK(float(e4m3(416.0f)) == 416.0f);
}

TEST_CASE("e5m2 is the upper half of an fp16") {
    std::size_t bad = 0;
    for (std::uint32_t code = 0; code < 256; ++code) {
        const std::uint32_t half = code << 8;
        const float x = float(e5m2::from_bits(std::uint8_t(code)));
        bad += bits_of(x) != widen_code<5, 10>(half);
    }
    CHECK(bad == 0);
}
