// SPDX-License-Identifier: MIT
#include "mpt/train/schedule.hpp"

#include "mpt/train/loss_scale.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

// Rates of the applied steps, when those attempts are skipped whose number is in `overflow`.
static std::vector<double> rates(const schedule& lr, int attempts,
                                 const std::vector<bool>& overflow, bool count_attempts) {
    loss_scale scale;
    std::vector<double> seen;
    long applied = 0;
    for (int step = 0; step < attempts; ++step)
        if (scale.update(!overflow[std::size_t(step)]))
            seen.push_back(lr(count_attempts ? step : applied++));
    return seen;
}

TEST_CASE("nanoGPT's numbers") {
    const schedule lr{6e-4, 6e-5, 2000, 600000};
    const double at[6][2] = {{0, 2.998500749625187e-07}, {1999, 0.0005997001499250374},
                             {2000, 0.0006},             {301000, 0.00032999999999999994},
                             {600000, 6e-05},            {600001, 6e-05}};
    for (const auto& [step, rate] : at)
        CHECK(lr(long(step)) == doctest::Approx(rate).epsilon(1e-12));
    CHECK(schedule{6e-4, 6e-5, 2000, 599999}(301000) != lr(301000)); // the check can fail
}

TEST_CASE("the rate rises, then falls, and has no jump") {
    const schedule lr{1e-3, 1e-4, 100, 1000};
    for (long it = 0; it < 100; ++it) CHECK(lr(it) < lr(it + 1));
    CHECK(lr(100) == 1e-3);
    for (long it = 100; it < 1000; ++it) {
        CHECK(lr(it) > lr(it + 1));
        CHECK(lr(it) - lr(it + 1) < 2e-6);
    }
}

TEST_CASE("constant, with and without warm-up") {
    CHECK(schedule::constant(0.1)(0) == 0.1);
    CHECK(schedule::constant(0.1)(1000000) == 0.1);
    const schedule warm{1, 1, 3, 0};
    CHECK(warm(0) == 0.25);
    CHECK(warm(2) == 0.75);
    CHECK(warm(3) == 1);
    CHECK(schedule{1, 0, 5, 5}(5) == 1); // no room for the cosine: nothing but its two ends
    CHECK(schedule{1, 0, 5, 5}(6) == 0);
}

TEST_CASE("skipped steps do not move the schedule") {
    const schedule lr{1e-3, 1e-4, 9, 100};
    std::vector<bool> overflow(20);
    overflow[0] = overflow[1] = overflow[2] = true;
    const std::vector<double> right = rates(lr, 20, overflow, false);
    CHECK(right.front() == doctest::Approx(1e-4).epsilon(1e-12)); // 1e-3 * (0 + 1) / 10
    for (std::size_t i = 0; i < right.size(); ++i) CHECK(right[i] == lr(long(i)));
    // sabotage: counting attempts, the first applied step is already at 4e-4
    CHECK(rates(lr, 20, overflow, true).front() == doctest::Approx(4e-4).epsilon(1e-12));
}

TEST_CASE("values that make no schedule are refused") {
    CHECK(refusal([] { schedule{}.validate(); }) == "nothing");
    CHECK(says(refusal([] { schedule{0, 0, 0, 0}.validate(); }), "learning rate of 0"));
    CHECK(says(refusal([] { schedule{1, 2, 0, 0}.validate(); }), "smallest rate of 2"));
    CHECK(says(refusal([] { schedule{1, 0, -1, 0}.validate(); }), "warm-up of -1"));
    CHECK(says(refusal([] { schedule{1, 0, 20, 10}.validate(); }), "shorten the warm-up"));
}
