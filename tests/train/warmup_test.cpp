// SPDX-License-Identifier: MIT
#include "mpt/train/warmup.hpp"

#include "mpt/train/loss_scale.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;
using rise = warmup_lr::rise;

// i counted from 1, as some ports do.
static double from_one(const warmup_lr& lr, long i) {
    return lr.max_lr * std::log(double(i)) / std::log(double(lr.steps));
}

TEST_CASE("logarithmic by default: ln(i + 1) / ln(w)") {
    const warmup_lr lr{0, 1e-3, 1000};
    // 1e-3 * log10(i + 1) / 3, of which four are round numbers
    const double at[6][2] = {{0, 0},      {9, 1e-3 / 3}, {99, 2e-3 / 3},
                             {999, 1e-3}, {1000, 1e-3},  {31, 5.0171665943996864e-4}};
    for (const auto& [step, rate] : at) CHECK(std::abs(lr(long(step)) - rate) <= 1e-12 * rate);
    CHECK(warmup_lr{}(9) == lr(9)); // DeepSpeed's defaults
    // sabotage: counted from 1 instead of 0
    CHECK(std::abs(from_one(lr, 9) - lr(9)) > 1e-2 * lr(9));
}

TEST_CASE("linear: i / w, from the smallest to the largest") {
    const warmup_lr lr{1e-4, 5e-4, 8, rise::linear};
    const double want[10] = {1e-4, 1.5e-4, 2e-4, 2.5e-4, 3e-4, 3.5e-4, 4e-4, 4.5e-4, 5e-4, 5e-4};
    for (long i = 0; i < 10; ++i) CHECK(std::abs(lr(i) - want[i]) <= 1e-12 * want[i]);
}

TEST_CASE("it rises at every step, then stays") {
    for (const rise type : {rise::logarithmic, rise::linear})
        for (const long w : {2L, 3L, 7L, 100L}) {
            const warmup_lr lr{1e-5, 1, w, type};
            CHECK(lr(0) == 1e-5);
            for (long i = 0; i + 1 < w; ++i) CHECK(lr(i) < lr(i + 1));
            CHECK(lr(w) == 1);
            CHECK(lr(1000000) == 1);
        }
    // the logarithm is there a step early: ln(w) / ln(w)
    CHECK(warmup_lr{0, 1, 7}(6) == doctest::Approx(1).epsilon(1e-15));
    CHECK(warmup_lr{0, 1, 7, rise::linear}(6) < 0.9);
}

TEST_CASE("skipped steps do not move the schedule") {
    const warmup_lr lr{0, 1e-3, 10};
    loss_scale scale;
    long applied = 0;
    std::vector<double> seen;
    for (int attempt = 0; attempt < 8; ++attempt)
        if (scale.update(attempt >= 3)) seen.push_back(lr(applied++));
    for (std::size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == lr(long(i)));
    CHECK(seen[0] != lr(3)); // sabotage: counting attempts
}

TEST_CASE("values that make no schedule are refused") {
    CHECK(refusal([] { warmup_lr{}.validate(); }) == "nothing");
    CHECK(refusal([] { warmup_lr{1, 1, 2}.validate(); }) == "nothing");
    CHECK(says(refusal([] { warmup_lr{0, 1, 1}.validate(); }), "warmup: 1 steps; give 2 or more"));
    CHECK(says(refusal([] { warmup_lr{0, 0, 9}.validate(); }), "largest rate of 0"));
    CHECK(says(refusal([] { warmup_lr{2, 1, 9}.validate(); }), "from a rate of 2 up to 1"));
    CHECK(says(refusal([] { warmup_lr{-1, 1, 9}.validate(); }), "from a rate of -1"));
    CHECK(says(refusal([] { warmup_lr{0, INFINITY, 9}.validate(); }), "largest rate of inf"));
}
