// SPDX-License-Identifier: MIT
// What bench_cuda asks of results: that it takes what is right, and refuses what is not.
#include "../../bench/cuda/look.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

namespace {

const std::vector<float> right{1.0f, -2.0f, 0.0f, 4.0f};

std::string refusal_of(const std::vector<float>& got) {
    try {
        bench::look("a row", got, 0x1p-8, 1e-6, [](std::size_t i) { return double(right[i]); });
        return "";
    } catch (const std::exception& e) {
        return e.what();
    }
}

TEST_CASE("look: a share of the number, and a least") {
    CHECK(refusal_of(right) == "");
    CHECK(refusal_of({1.003f, -2.007f, 9e-7f, 4.015f}) == "");
    CHECK(refusal_of({1.005f, -2.0f, 0.0f, 4.0f}).find("a row: element 0 is 1.005") == 0);
    CHECK(refusal_of({1.0f, -2.0f, 2e-6f, 4.0f}).find("element 2") != std::string::npos);
    for (const float x : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()})
        CHECK(refusal_of({1.0f, -2.0f, 0.0f, x}).find("element 3") != std::string::npos);
}

TEST_CASE("alike: the root of the mean square of what two sides differ by") {
    const std::vector<float> near{1.01f, -2.01f, 0.01f, 4.01f};       // 0.02 / sqrt(21) = 0.0044
    CHECK_NOTHROW(bench::alike("a row", right, right, 0));
    CHECK_NOTHROW(bench::alike("a row", near, right, 0.0045));
    CHECK_THROWS_WITH(bench::alike("a row", near, right, 0.0043),
                      doctest::Contains("differ by 0.0043"));
    const std::vector<float> unwritten{1.0f, std::numeric_limits<float>::quiet_NaN(), 0.0f, 4.0f};
    CHECK_THROWS(bench::alike("a row", unwritten, right, 1));
}

} // namespace
