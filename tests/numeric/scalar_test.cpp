// SPDX-License-Identifier: MIT
#include "mpt/numeric/scalar.hpp" // format, wide_t, widen, narrow, name

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

using namespace mpt;

static_assert(std::is_same_v<wide_t<float>, float> && std::is_same_v<wide_t<double>, double>);
static_assert(std::is_same_v<wide_t<fp16>, float> && std::is_same_v<wide_t<bf16>, float>);
static_assert(std::is_same_v<wide_t<tf32>, float>);
static_assert(narrow<fp16>(widen(fp16::from_bits(0x1234))).bits == 0x1234);
static_assert(widen(0.1) == 0.1 && narrow<double>(0.1) == 0.1 && narrow<float>(0.1f) == 0.1f);

TEST_CASE("names") {
    CHECK(name<float>() == std::string("fp32"));
    CHECK(name<fp16>() == std::string("fp16"));
    CHECK(name<bf16>() == std::string("bf16"));
    CHECK(name<tf32>() == std::string("tf32"));
    CHECK(name<double>() == std::string("fp64"));
}

template <class T>
static void check_constants() {
    using f = format<T>;
    CAPTURE(f::name);
    CHECK(widen(narrow<T>(f::max)) == f::max);
    CHECK(widen(narrow<T>(f::min_normal)) == f::min_normal);
    CHECK(widen(narrow<T>(f::min_subnormal)) == f::min_subnormal);
    CHECK(widen(narrow<T>(1 + f::epsilon)) == 1 + f::epsilon);
    CHECK(widen(narrow<T>(1 + f::epsilon / 2)) == 1);      // tie to even
    CHECK(widen(narrow<T>(f::min_subnormal / 2)) == 0);    // tie to even
    CHECK(f::min_subnormal == f::min_normal * f::epsilon); // spacing at the smallest normal
    CHECK(f::exponent_bits + f::mantissa_bits + 1 == (name<T>() == std::string("tf32")
                                                          ? 19
                                                          : int(8 * sizeof(T))));
}

TEST_CASE("the constants are numbers of their formats") {
    check_constants<float>();
    check_constants<fp16>();
    check_constants<bf16>();
    check_constants<tf32>();
    check_constants<double>();
}

TEST_CASE("rounding in between is not rounding once") {
    // bf16(x) and bf16(fp16(x)): x lies just above a tie of bf16, fp16 puts it onto the tie
    const float x = 1 + 0x1p-8f + 0x1p-12f;
    CHECK(widen(narrow<bf16>(x)) == 1 + 0x1p-7f);
    CHECK(widen(narrow<bf16>(widen(narrow<fp16>(x)))) == 1.0f);
}
