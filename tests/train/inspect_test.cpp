// SPDX-License-Identifier: MIT
#include "mpt/train/inspect.hpp"

#include "rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace mpt;
using rig::says;

namespace {

// Two units of several tensors: 3 + 1, then n - 4 elements.
layout two_units(std::size_t n) {
    layout map;
    map.add_unit("first");
    map.add("first.w", {3, 1}, 1);
    map.add("first.b", {1}, 0);
    map.add_unit("second");
    map.add("second.w", {n - 4, 1}, 1);
    return map;
}

template <class G>
double squares(const G* x, std::size_t n) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += double(widen(x[i])) * double(widen(x[i]));
    return sum;
}

template <class G>
health look_at(const std::vector<G>& x, int threads = 2) {
    rig::machine m(threads);
    return inspect(m.on, pieces<const G>{{rig::view(x), 0}});
}

const std::vector<std::size_t> sizes{0,   1,   2,     31,    32,    33,    255,  256,
                                     257, 997, 16383, 16384, 16385, 40000, 100003};

} // namespace

TEST_CASE_TEMPLATE("squares are those of fp64 within the bound that the card states", G, float,
                   fp16, bf16, double) {
    for (const std::size_t n : sizes) {
        const std::vector<G> x = rig::numbers<G>(3, n, 10);
        const health h = look_at(x);
        const double want = squares(x.data(), n);
        CHECK(h.finite);
        CHECK(h.count == n);
        CHECK(h.bad == 0);
        REQUIRE(h.squares.size() == 1);
        CHECK(std::abs(h.squares[0] - want) <= 9 * 0x1p-24 * want);
        CHECK(norm(h) == std::sqrt(h.squares[0]));
    }
}

TEST_CASE_TEMPLATE("sabotage: a sum that leaves out the last element is outside of that bound", G,
                   float, fp16, bf16, double) {
    for (const std::size_t n : sizes) {
        if (n == 0) continue;
        std::vector<G> x = rig::numbers<G>(3, n, 1);
        x.back() = narrow<G>(wide_t<G>(1));
        const health h = look_at(x);
        const double want = squares(x.data(), n - 1);
        CHECK_FALSE(std::abs(h.squares[0] - want) <= 9 * 0x1p-24 * want);
    }
}

TEST_CASE_TEMPLATE("one infinity or NaN is found at every place", G, float, fp16, bf16, double) {
    using W = wide_t<G>;
    const W inf = std::numeric_limits<W>::infinity(), nan = std::numeric_limits<W>::quiet_NaN();
    for (const std::size_t n : {1, 31, 257, 300}) {
        const std::vector<G> clean = rig::numbers<G>(5, n, 1);
        for (std::size_t at = 0; at < n; ++at)
            for (const W bad : {inf, -inf, nan}) {
                std::vector<G> x = clean;
                x[at] = narrow<G>(bad);
                const health h = look_at(x, 1);
                CHECK_FALSE(h.finite);
                CHECK(h.bad == 1);
                CHECK(h.first_bad == at);
            }
    }
}

TEST_CASE("where there are several, they are counted, the first is named by tensor") {
    const std::size_t n = 50004;
    const layout map = two_units(n);
    rig::machine m;
    std::vector<fp16> x = rig::numbers<fp16>(6, n, 1);
    const auto inspected = [&] { return inspect(m.on, rig::by_unit<const fp16>(map, x.data())); };
    CHECK(inspected().finite);
    x[40000] = fp16(INFINITY);
    x[20000] = fp16(-NAN);
    x[50003] = fp16(INFINITY);
    health h = inspected();
    CHECK(h.bad == 3);
    CHECK(h.first_bad == 20000);
    CHECK(describe(h, map) == "3 of 50.0 K gradients not finite, first in second.w");
    x[3] = fp16(INFINITY);
    h = inspected();
    CHECK(h.first_bad == 3);
    CHECK(describe(h, map) == "4 of 50.0 K gradients not finite, first in first.b");
    x[1] = fp16(-INFINITY); // two in one block: it is looked at from its end
    CHECK(inspected().bad == 5);
    CHECK(inspected().first_bad == 1);
    const auto counted = [&](std::size_t count) { return h.count = count, describe(h, map); };
    CHECK(says(counted(9999), "4 of 9999 gradients"));
    CHECK(says(counted(10000), "4 of 10.0 K gradients"));
    CHECK(says(counted(999900), "4 of 999.9 K gradients"));
    CHECK(says(counted(1000000), "4 of 1.0 M gradients"));
    CHECK(says(counted(12600000), "4 of 12.6 M gradients"));
    CHECK(says(describe(health{}, map), "another rank"));
}

TEST_CASE("squares past the largest fp32 are no overflow, nor are those below its smallest lost") {
    for (const std::size_t n : {1, 32, 1000, 20000}) {
        for (const float size : {3e38f, 1e30f, 1e19f, 1e-20f, 1e-30f, 1e-44f}) {
            const std::vector<float> x(n, size);
            const health h = look_at(x);
            CHECK(h.finite);
            CHECK(norm(h) == doctest::Approx(double(size) * std::sqrt(double(n))).epsilon(1e-6));
            const std::vector<bf16> y(n, bf16(size));
            CHECK(look_at(y).finite);
            CHECK(norm(look_at(y)) ==
                  doctest::Approx(double(float(bf16(size))) * std::sqrt(double(n))).epsilon(1e-6));
        }
    }
    const std::vector<double> huge(100, 1e200); // squares pass fp64: still finite elements
    CHECK(look_at(huge).finite);
    const std::vector<fp16> largest(70000, fp16(65504.0f));
    CHECK(look_at(largest).finite);
    CHECK(norm(look_at(largest)) == doctest::Approx(65504 * std::sqrt(70000.0)).epsilon(1e-6));
}

TEST_CASE("sabotage: the test by a sum of fp32 squares takes finite gradients for an overflow") {
    const std::vector<float> x(1000, 1e19f);
    float sum = 0;
    for (const float g : x) sum += g * g;
    CHECK_FALSE(std::isfinite(sum));
    CHECK(look_at(x).finite);
}

TEST_CASE_TEMPLATE("the same bits for any number of threads, and nothing is written", G, float,
                   fp16, bf16, double) {
    const std::vector<G> x = rig::numbers<G>(8, 200003, 3), copy = x;
    const health one = look_at(x, 1);
    for (const int threads : {2, 3, 8}) CHECK(look_at(x, threads).squares == one.squares);
    CHECK(rig::same_bits(x, copy));
}

TEST_CASE("the same bits with any instructions") { // this file is also built without -march=native
    std::uint64_t h = 0;
    const auto add = [&](const health& seen) { h = rig::digest(seen.squares, h); };
    for (const std::size_t n : {997u, 100003u}) {
        add(look_at(rig::numbers<float>(1, n, 1)));
        add(look_at(rig::numbers<fp16>(1, n, 1)));
        add(look_at(rig::numbers<bf16>(1, n, 1)));
    }
    CHECK(h == 16716009919527767304u);
}

TEST_CASE("the norm adds the squares of the pieces in their order") {
    const std::size_t n = 4000;
    const layout map = two_units(n);
    rig::machine m;
    std::vector<float> x = rig::numbers<float>(9, n, 1);
    const health h = inspect(m.on, rig::by_unit<const float>(map, x.data()));
    REQUIRE(h.squares.size() == 2);
    CHECK(h.squares[0] == doctest::Approx(squares(x.data(), 4)).epsilon(1e-6));
    CHECK(h.squares[1] == doctest::Approx(squares(x.data() + 4, n - 4)).epsilon(1e-6));
    CHECK(norm(h) == std::sqrt(h.squares[0] + h.squares[1]));
    health three;
    three.squares = {9, 16, 144};
    CHECK(norm(three) == 13);
}

TEST_CASE("the gradients of a window are inspected where they are") {
    rig::machine m;
    const std::vector<fp16> micro(10, fp16(2.0f));
    const std::vector<float> sum(10, 3.0f);
    owned_gradients<fp16> g;
    g.micro = {{rig::view(micro), 0}};
    CHECK(norm(inspect(m.on, g)) == doctest::Approx(std::sqrt(40.0)));
    g.sum = {{rig::view(sum), 0}};
    CHECK(norm(inspect(m.on, g)) == doctest::Approx(std::sqrt(90.0)));
}
