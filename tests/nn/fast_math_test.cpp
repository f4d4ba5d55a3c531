// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/fast_math.hpp"
#include "mpt/numeric/rounding.hpp" // bits_of, float_of

#include <doctest/doctest.h>

#include <limits>

using namespace mpt;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
// where exp is neither 0 nor infinity
constexpr float least = -0x1.5d589ep+6f, most = 0x1.62e42ep+6f;

// The largest error in ulps of `f` against `exact`, over every 1009th float in [from, to].
template <class F, class E>
double worst_error(F f, E exact, float from, float to) {
    double worst = 0;
    for (std::uint64_t bits = 0; bits < (std::uint64_t(1) << 32); bits += 1009) {
        const float x = float_of(std::uint32_t(bits));
        if (!(x >= from && x <= to)) continue;
        const double want = exact(double(x));
        const double off = std::fabs(double(f(x)) - want) / checks::ulp<float>(want);
        worst = std::isnan(off) ? 1e9 : std::max(worst, off);
    }
    return worst;
}
const auto exact_exp = [](double x) { return std::exp(x); };
const auto exact_tanh = [](double x) { return std::tanh(x); };

std::uint32_t digest(float (*f)(float)) { // FNV-1a over the results of a million floats
    std::uint32_t hash = 2166136261u;
    for (std::uint64_t bits = 0; bits < (std::uint64_t(1) << 32); bits += 4099) {
        const float x = float_of(std::uint32_t(bits));
        if (x != x) continue;
        hash = (hash ^ bits_of(f(x))) * 16777619u;
    }
    return hash;
}

} // namespace

TEST_CASE("exp is right to 1 ulp, tanh to 1.5") {
    // Over all 2^32 floats the largest errors are 0.983 and 1.459 (measured once).
    CHECK(worst_error([](float x) { return fast_exp(x); }, exact_exp, least, most) < 1.0);
    CHECK(worst_error([](float x) { return fast_tanh(x); }, exact_tanh, -infinity, infinity) < 1.5);
}

TEST_CASE("sabotage: a last coefficient that is off by 1e-4 of itself is seen") {
    const auto off = [](float x) { return fast_exp(x) * (1.0f + 1.4e-7f * std::fabs(x) / 88); };
    CHECK(worst_error(off, exact_exp, least, most) > 1.0);
    const auto scaled = [](float x) { return fast_tanh(x * (1 + 2e-7f)); };
    CHECK(worst_error(scaled, exact_tanh, -infinity, infinity) > 1.5);
}

TEST_CASE("edges of exp and tanh") {
    CHECK(fast_exp(0.0f) == 1.0f);
    CHECK(fast_exp(-0.0f) == 1.0f);
    CHECK(fast_exp(-infinity) == 0.0f);
    CHECK(fast_exp(-1e30f) == 0.0f);
    CHECK(fast_exp(-88.0f) == 0.0f); // would be subnormal
    CHECK(fast_exp(least) >= std::numeric_limits<float>::min());
    CHECK(std::isfinite(fast_exp(most)));
    CHECK(fast_exp(std::nextafter(most, infinity)) == infinity);
    CHECK(fast_exp(1e30f) == infinity);
    CHECK(fast_exp(infinity) == infinity);
    CHECK(std::isnan(fast_exp(not_a_number)));
    CHECK(std::isnan(fast_exp(-not_a_number)));
    CHECK(std::isnan(fast_exp(float_of(0x7FC00001)))); // with a payload
    CHECK(fast_tanh(infinity) == 1.0f);
    CHECK(fast_tanh(-infinity) == -1.0f);
    CHECK(std::isnan(fast_tanh(not_a_number)));
    CHECK(std::signbit(fast_tanh(-0.0f)));
    CHECK(fast_tanh(1e-40f) == 1e-40f);
    CHECK(fast_exp(1.0) == std::exp(1.0)); // double is the C library's
}

TEST_CASE("a vectorised loop and single calls have the same bits") {
    std::vector<float> x = checks::numbers<float>(1003, 1, 30), all(x.size());
    x[5] = infinity, x[500] = -infinity, x[501] = -100, x[502] = 100;
    for (std::size_t i = 0; i < x.size(); ++i) all[i] = fast_exp(x[i]);
    bool same = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const volatile float one = x[i]; // so that this loop stays scalar
        same = same && fast_exp(one) == all[i];
    }
    CHECK(same);
}

TEST_CASE("the same bits on every machine and compiler") {
    CHECK(digest([](float x) { return fast_exp(x); }) == 4294491025u);
    CHECK(digest([](float x) { return fast_tanh(x); }) == 460969154u);
}
