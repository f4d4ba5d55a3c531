// SPDX-License-Identifier: MIT
#include "mpt/train/clip.hpp"

#include "rig.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace mpt;
using rig::refusal;
using rig::says;

// What the optimizer sees of a gradient of (g0, g1), scaled by S.
static void clipped(double g0, double g1, double S, double max_norm, bool unscale_first,
                    double& c0, double& c1) {
    const double scaled = std::hypot(g0 * S, g1 * S);
    const double factor = clip_factor(unscale_first ? scaled / S : scaled, max_norm) / S;
    c0 = g0 * S * factor;
    c1 = g1 * S * factor;
}

TEST_CASE("[3, 4] clipped to 1 is [0.59999988, 0.79999984]") {
    const double f = clip_factor(5, 1);
    CHECK(f == doctest::Approx(0.199999960000008).epsilon(1e-14));
    CHECK(3 * f == doctest::Approx(0.599999880000024).epsilon(1e-14));
    CHECK(4 * f == doctest::Approx(0.799999840000032).epsilon(1e-14));
}

TEST_CASE("short gradients are left alone, 0 is off") {
    CHECK(clip_factor(0.5, 1) == 1);
    CHECK(clip_factor(0, 1) == 1);
    CHECK(clip_factor(1e9, 0) == 1);
    CHECK(clip_factor(1 - 1e-6, 1) == 1);
    CHECK(clip_factor(1, 1) < 1);
}

TEST_CASE("the norm that counts is the unscaled one") {
    double a, b;
    clipped(.3, .4, 65536, 1, true, a, b);
    CHECK(a == doctest::Approx(0.3).epsilon(1e-12));
    CHECK(b == doctest::Approx(0.4).epsilon(1e-12));
}

TEST_CASE("sabotage: clipped while still scaled, the gradient all but vanishes") {
    double a, b;
    clipped(.3, .4, 65536, 1, false, a, b);
    CHECK(a == doctest::Approx(9.155273437220602e-06).epsilon(1e-9));
    CHECK(b == doctest::Approx(1.2207031249627472e-05).epsilon(1e-9));
}

TEST_CASE("a norm that is not finite is no case for clipping") {
    CHECK(says(refusal([] { clip_factor(INFINITY, 1); }), "skip the step"));
    CHECK(says(refusal([] { clip_factor(NAN, 1); }), "skip the step"));
    CHECK(says(refusal([] { clip_factor(1, -1); }), "largest norm of -1"));
    CHECK(says(refusal([] { clip_factor(1, NAN); }), "largest norm of"));
}
