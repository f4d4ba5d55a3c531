// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/row_math.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace mpt;

namespace {

float sum(const std::vector<float>& v) {
    const float* x = v.data();
    return row_sum<float>(v.size(), [x](std::size_t i) { return x[i]; });
}

// The order that the card promises, one number at a time.
float promised(const std::vector<float>& v) {
    float s[32] = {};
    for (std::size_t i = 0; i < v.size(); ++i) s[i % 32] += v[i];
    for (int width = 16; width > 0; width /= 2)
        for (int k = 0; k < width; ++k) s[k] += s[k + width];
    return s[0];
}
float in_a_row(const std::vector<float>& v) {
    float s = 0;
    for (const float x : v) s += x;
    return s;
}

} // namespace

TEST_CASE("row_sum adds in the promised order, so that every machine has the same bits") {
    int other_order_differs = 0;
    for (const std::size_t n : {0, 1, 2, 31, 32, 33, 63, 64, 65, 100, 768, 50304}) {
        const auto x = checks::numbers<float>(n, std::uint32_t(n));
        CHECK(sum(x) == promised(x));
        other_order_differs += sum(x) != in_a_row(x);
    }
    CHECK(other_order_differs > 3); // the sabotage: another order would be seen
}

TEST_CASE("its error is n/32 + 5 roundings at most") {
    std::vector<float> x(1000000, 0.1f);
    const double exact = double(0.1f) * 1e6, rounding = 0x1p-24 * exact;
    CHECK(std::fabs(sum(x) - exact) < (1e6 / 32 + 5) * rounding);
    CHECK(std::fabs(in_a_row(x) - exact) > 10 * std::fabs(sum(x) - exact));
}

TEST_CASE("row_max finds the largest wherever it lies, and passes over NaN") {
    for (const std::size_t n : {1, 2, 31, 32, 33, 64, 100})
        for (std::size_t at = 0; at < n; ++at) {
            auto x = checks::numbers<float>(n, 3);
            x[at] = 9;
            CHECK(row_max(x.data(), n) == 9);
        }
    std::vector<float> x(40, -3);
    x[7] = std::numeric_limits<float>::quiet_NaN();
    CHECK(row_max(x.data(), x.size()) == -3);
    x.assign(40, -std::numeric_limits<float>::infinity());
    CHECK(row_max(x.data(), x.size()) == -std::numeric_limits<float>::infinity());
}
