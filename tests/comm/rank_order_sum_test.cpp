// SPDX-License-Identifier: MIT
#include "mpt/comm/rank_order_sum.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

using namespace mpt;

namespace {

// By the formula, one element at a time; `from` first, or ranks backwards.
template <class T>
std::vector<T> by_element(const std::vector<std::vector<T>>& parts, bool backwards = false) {
    std::vector<T> out(parts[0].size());
    for (std::size_t i = 0; i < out.size(); ++i) {
        wide_t<T> sum = widen((backwards ? parts.back() : parts.front())[i]);
        for (std::size_t r = 1; r < parts.size(); ++r)
            sum += widen(parts[backwards ? parts.size() - 1 - r : r][i]);
        out[i] = narrow<T>(sum);
    }
    return out;
}
// With a rounding to T after every addition.
template <class T>
std::vector<T> rounded_each_time(const std::vector<std::vector<T>>& parts) {
    std::vector<T> out = parts[0];
    for (std::size_t r = 1; r < parts.size(); ++r)
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = narrow<T>(widen(out[i]) + widen(parts[r][i]));
    return out;
}

template <class T>
std::vector<std::vector<T>> some(int ranks, std::size_t n) {
    std::vector<std::vector<T>> parts;
    for (int r = 0; r < ranks; ++r) parts.push_back(rig::numbers<T>(std::uint32_t(r), n, 100));
    return parts;
}
template <class T>
std::vector<const T*> pointers(const std::vector<std::vector<T>>& parts) {
    std::vector<const T*> at;
    for (const auto& p : parts) at.push_back(p.data());
    return at;
}

} // namespace

TEST_CASE_TEMPLATE("the sum is the formula's, to the bit", T, float, double, fp16, bf16) {
    for (const int ranks : {1, 2, 3, 4, 5, 8, 16})
        for (const std::size_t n : {0u, 1u, 15u, 16u, 17u, 1023u, 1024u, 1025u, 5000u, 40001u}) {
            auto parts = some<T>(ranks, n);
            const std::vector<T> want = by_element(parts);
            std::vector<T> out(n);
            sum_in_rank_order<T>(pointers(parts), out.data(), n);
            CHECK(rig::same_bits(out, want));
            // into every part at once
            std::vector<const void*> in;
            std::vector<void*> to;
            for (auto& p : parts) in.push_back(p.data()), to.push_back(p.data());
            sum_in_rank_order(element_code<T>::value, in, std::span<void* const>(to), n);
            for (const auto& p : parts) CHECK(rig::same_bits(p, want));
            // and into one of them
            parts = some<T>(ranks, n);
            T* const last = parts.back().data();
            sum_in_rank_order<T>(pointers(parts), last, n);
            CHECK(rig::same_bits(parts.back(), want));
        }
}

TEST_CASE("sabotage: another order, or a rounding in between, is seen") {
    const auto wide = some<float>(5, 1000);
    CHECK(!rig::same_bits(by_element(wide), by_element(wide, true)));
    const auto halves = some<fp16>(5, 1000);
    CHECK(!rig::same_bits(by_element(halves), rounded_each_time(halves)));
    const auto brains = some<bf16>(5, 1000);
    CHECK(!rig::same_bits(by_element(brains), rounded_each_time(brains)));
}

TEST_CASE("1e8, 1, -1e8, 1 make 1 in rank order, and 0 in another") {
    const std::vector<std::vector<float>> parts{{1e8f}, {1}, {-1e8f}, {1}};
    float out = 0;
    sum_in_rank_order<float>(pointers(parts), &out, 1);
    CHECK(out == 1);
    const std::vector<std::vector<float>> turned{{1}, {-1e8f}, {1}, {1e8f}};
    sum_in_rank_order<float>(pointers(turned), &out, 1);
    CHECK(out == 0);
}

TEST_CASE("sums that pass fp16 on their way are right at the end") {
    const std::vector<std::vector<fp16>> parts{
        {fp16(60000.0f)}, {fp16(60000.0f)}, {fp16(-60000.0f)}};
    fp16 out;
    sum_in_rank_order<fp16>(pointers(parts), &out, 1);
    CHECK(float(out) == 60000);
    CHECK(std::isinf(float(rounded_each_time(parts)[0]))); // sabotage
}

TEST_CASE("64 ranks of 2048 pass fp16: divide by 8 before and by 8 after") {
    std::vector<std::vector<fp16>> parts(64, {fp16(2048.0f)});
    fp16 out;
    sum_in_rank_order<fp16>(pointers(parts), &out, 1);
    CHECK(std::isinf(float(out))); // 131072 is no fp16, whatever the order
    parts.assign(64, {fp16(2048.0f / 8)});
    sum_in_rank_order<fp16>(pointers(parts), &out, 1);
    CHECK(float(out) / 8 == 2048);
}

TEST_CASE("what has no sum is refused") {
    CHECK(rig::refusal([] {
              sum_in_rank_order(element::int32, std::span<const void* const>(),
                                static_cast<void*>(nullptr), 0);
          }) == "sum: elements of type int32 are not summed");
}
