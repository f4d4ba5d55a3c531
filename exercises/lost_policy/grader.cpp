// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include "mpt/numeric/bf16.hpp"

#include <algorithm>

using namespace grade;

namespace {

float expected(std::span<const float> a, std::span<const float> b, precision how, int threads) {
    const auto r = [&](float x) { return how == precision::bf16 ? float(mpt::bf16(x)) : x; };
    const std::size_t each = (a.size() + std::size_t(threads) - 1) / std::size_t(threads);
    float sum = 0;
    for (int t = 0; t < threads; ++t) {
        float part = 0;
        const std::size_t from = std::min(a.size(), each * std::size_t(t));
        for (std::size_t i = from; i < std::min(a.size(), from + each); ++i)
            part += r(a[i]) * r(b[i]);
        sum += part;
    }
    return sum;
}

void tried(precision how, const char* name) {
    for (const int threads : {1, 2, 3, 7})
        for (const std::size_t n : {1u, 5u, 1000u}) {
            const std::vector<float> a = any().list(n), b = any().list(n);
            equals(mpt::join("dot of ", n, " numbers in ", name, " on ", threads, " threads"),
                   dot(a, b, how, threads), expected(a, b, how, threads),
                   "every thread computes in the precision that was asked for");
        }
}

} // namespace

PART("bf16 in every thread", 3) { tried(precision::bf16, "bf16"); }
PART("fp32 stays fp32, also after bf16", 2) {
    tried(precision::fp32, "fp32");
    tried(precision::bf16, "bf16");
    tried(precision::fp32, "fp32");
}
PART("two callers at once, each in its own precision", 1) {
    const std::vector<float> a = any().list(500), b = any().list(500);
    const float low = expected(a, b, precision::bf16, 2), high = expected(a, b, precision::fp32, 2);
    for (int round = 0; round < 50; ++round) {
        float found_low = 0, found_high = 0;
        std::thread one([&] { found_low = dot(a, b, precision::bf16, 2); });
        std::thread two([&] { found_high = dot(a, b, precision::fp32, 2); });
        one.join();
        two.join();
        equals("dot in bf16 beside one in fp32", found_low, low,
               "what one caller asks for is not the other's");
        equals("dot in fp32 beside one in bf16", found_high, high,
               "what one caller asks for is not the other's");
    }
}
