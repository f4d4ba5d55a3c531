// SPDX-License-Identifier: MIT
#include "mpt/base/device_span.hpp" // device_span, device_view

#include <doctest/doctest.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

using namespace mpt;

// What host code could try. Each is checked on a std::span first: the question can be answered yes.
template <class S>
concept indexed = requires(S s) {
    s[0];
};
template <class S>
concept iterable = requires(S s) {
    std::begin(s);
};
template <class S>
concept dereferenced = requires(S s) {
    *s;
};
template <class S>
concept fronted = requires(S s) {
    s.front();
};

static_assert(indexed<std::span<float>> && iterable<std::span<float>> && fronted<std::span<float>>);
static_assert(dereferenced<float*>);
static_assert(!indexed<device_span<float>> && !iterable<device_span<float>>);
static_assert(!fronted<device_span<float>> && !dereferenced<device_span<float>>);
static_assert(!std::is_convertible_v<device_span<float>, std::span<float>>);
static_assert(!std::is_constructible_v<std::span<float>, device_span<float>>);
static_assert(!std::is_convertible_v<device_span<float>, float*>);

// T -> const T and nothing else.
static_assert(std::is_convertible_v<device_span<float>, device_span<const float>>);
static_assert(!std::is_convertible_v<device_span<const float>, device_span<float>>);
static_assert(!std::is_convertible_v<device_span<int>, device_span<float>>);
static_assert(std::is_trivially_copyable_v<device_span<float>>);

template <class T>
static std::size_t bytes_read(device_span<T> out, device_view<T> in) { // T comes from `out` alone
    return out.bytes() + in.bytes();
}

TEST_CASE("pointer, size, bytes, parts") {
    std::vector<double> x(10);
    const device_span<double> s(x.data(), x.size());
    CHECK(s.size() == 10);
    CHECK(s.bytes() == 80);
    CHECK_FALSE(s.empty());
    CHECK(s.subspan(3, 4).data() == x.data() + 3);
    CHECK(s.subspan(3, 4).size() == 4);
    CHECK(s.subspan(10, 0).empty());
    CHECK(s.first(10).size() == 10);
    CHECK(device_span<double>().empty());
    CHECK(device_span<double>().subspan(0, 0).empty());
    CHECK(bytes_read(s, s.first(2)) == 96); // a span of T is passed where a view is wanted
}

TEST_CASE("a part that passes the end is refused, sums that wrap around too") {
    std::vector<float> x(10);
    const device_span<float> s(x.data(), x.size());
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK_THROWS_WITH_AS(
        s.subspan(7, 4),
        "device_span: 4 elements from 7 on, of a span of 10; take a part that lies inside", error);
    CHECK_THROWS_AS(s.first(11), error);
    CHECK_THROWS_AS(s.subspan(11, 0), error);
    CHECK_THROWS_AS(s.subspan(5, most - 2), error); // 5 + (max - 2) is 2 in 64 bits
    CHECK_THROWS_AS(s.subspan(most, 2), error);
    CHECK_THROWS_AS(device_span<float>().first(1), error);
    CHECK_NOTHROW(s.subspan(7, 3));
}
