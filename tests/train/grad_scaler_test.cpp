// SPDX-License-Identifier: MIT
#include "mpt/train/grad_scaler.hpp"

#include "mpt/train/hysteresis_scale.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

struct optimizer { // any object: only its address is used
    int steps = 0;
};

const health good{}, bad{false, 3, 1, 0, {}};

layout of(std::size_t n) {
    layout map;
    map.add_unit("all");
    map.add("weight", {n}, 0);
    return map;
}

} // namespace

TEST_CASE("two optimizers: the skip is each one's own, the scale hears of both") {
    grad_scaler<> scaler;
    optimizer generator, critic;
    scaler.unscale(generator, good);
    scaler.unscale(critic, bad, "1 of 3 gradients not finite, first in critic.weight");
    CHECK(scaler.step(generator));
    CHECK_FALSE(scaler.step(critic));
    CHECK_FALSE(scaler.update());
    CHECK(scaler.value() == 32768);
    CHECK(scaler.scale.last.line(1) == "step 1: 1 of 3 gradients not finite, first in "
                                       "critic.weight; scale 65536 -> 32768; step skipped");
    scaler.unscale(generator, bad, "first in generator.weight"); // of several the first is told
    scaler.unscale(critic, bad, "first in critic.weight");
    CHECK_FALSE(scaler.update());
    CHECK(says(scaler.scale.last.why, "first in generator.weight"));
    scaler.update(32768.0f);
    // and again, both finite: one update counts one step, whatever the number of optimizers
    CHECK(scaler.step(generator, good));
    CHECK(scaler.step(critic, good));
    CHECK(scaler.update());
    CHECK(scaler.scale.good == 1);
    CHECK(scaler.scale.skipped == 2);
    CHECK(scaler.value() == 32768);
}

TEST_CASE("calls out of order are errors, in PyTorch's words and with what to do") {
    grad_scaler<> scaler;
    optimizer one, two;
    CHECK(says(refusal([&] { scaler.update(); }),
               "No inf checks were recorded prior to update. Call unscale"));
    CHECK(says(refusal([&] { scaler.step(one); }),
               "No inf checks were recorded for this optimizer. Call unscale"));
    CHECK(says(refusal([&] { scaler.update(); }), "prior to update.")); // it was not one
    scaler.unscale(one, good);
    const std::string twice = refusal([&] { scaler.unscale(one, good); });
    CHECK(says(twice, "unscale_() has already been called on this optimizer since the last "
                      "update(). Gradients are divided once"));
    CHECK(twice.find('\n') == std::string::npos);
    scaler.unscale(two, good); // another optimizer's stage is its own
    CHECK(scaler.step(one));
    CHECK(says(refusal([&] { scaler.unscale(one, good); }),
               "unscale_() is being called after step(). Call unscale, then step, then update()"));
    CHECK(says(refusal([&] { scaler.step(one); }),
               "step() has already been called since the last update(). Call update() once"));
    CHECK(says(refusal([&] { scaler.step(one, good); }), "step() has already been called"));
    CHECK(scaler.step(two));
    CHECK(scaler.update()); // the errors have changed nothing
    CHECK(scaler.scale.good == 1);
    scaler.unscale(one, good); // all are READY again
    CHECK(scaler.step(one));
}

TEST_CASE("a step unscales first where that has not been done, and only there") {
    grad_scaler<> scaler;
    optimizer one;
    CHECK_FALSE(scaler.step(one, bad));
    CHECK_FALSE(scaler.update());
    scaler.unscale(one, bad);
    CHECK_FALSE(scaler.step(one, good)); // what unscale was told counts
    CHECK_FALSE(scaler.update());
}

TEST_CASE("update is legal without a step, and after an error of the scale") {
    grad_scaler<> scaler;
    optimizer one;
    scaler.unscale(one, good);
    CHECK(scaler.update());
    scaler.unscale(one, good);
    CHECK(scaler.update());
    CHECK(scaler.scale.good == 2);
    scaler.scale.value = scaler.scale.minimum = 1;
    scaler.unscale(one, bad, "first in wte.weight");
    CHECK(says(refusal([&] { scaler.update(); }), "first in wte.weight at the smallest scale 1"));
    scaler.unscale(one, good); // nothing is left in the middle
    CHECK(scaler.step(one));
    CHECK(scaler.update());
}

TEST_CASE("the inverse is rounded once, from double") {
    std::mt19937 random(3);
    grad_scaler<> scaler;
    for (int i = 0; i < 100000; ++i) {
        scaler.scale.value = std::ldexp(1 + float(random() % (1u << 23)) / 0x1p23f,
                                        int(random() % 60) - 20);
        const double exact = 1.0 / double(scaler.scale.value);
        const float inverse = scaler.inverse();
        // nearest fp32: no neighbour is nearer
        const double off = std::abs(double(inverse) - exact);
        const double below = double(std::nextafter(inverse, 0.0f));
        const double above = double(std::nextafter(inverse, INFINITY));
        const bool nearest = off <= std::abs(below - exact) && off <= std::abs(above - exact);
        if (!nearest) CHECK_MESSAGE(nearest, scaler.scale.value);
    }
    CHECK(scaler.seed(1024) == float(double(scaler.scale.value) / 1024));
}

TEST_CASE("a new scale by hand leaves the tracker, and is checked") {
    grad_scaler<> scaler;
    optimizer one;
    for (int i = 0; i < 3; ++i) {
        scaler.unscale(one, good);
        scaler.update();
    }
    scaler.unscale(one, good);
    scaler.update(512.0f);
    CHECK(scaler.value() == 512);
    CHECK(scaler.scale.good == 3);
    scaler.unscale(one, good); // READY again
    for (const float none : {0.0f, -1.0f, float(INFINITY), float(NAN)})
        CHECK(says(refusal([&] { scaler.update(none); }), "cannot scale anything"));
    CHECK(says(refusal([&] { scaler.update(0.5f); }), "a minimum of 1 under a scale of 0.5"));
    CHECK(scaler.value() == 512);
}

TEST_CASE("not enabled: scale 1, every step taken, no order asked, an empty state") {
    grad_scaler<> scaler;
    scaler.enabled = false;
    optimizer one;
    CHECK(scaler.value() == 1);
    CHECK(scaler.inverse() == 1);
    CHECK(scaler.seed(4) == 0.25f);
    CHECK(scaler.update());
    CHECK(scaler.step(one));
    scaler.unscale(one, bad);
    scaler.unscale(one, bad);
    CHECK(scaler.step(one));
    scaler.update(3.0f);
    CHECK(scaler.scale.value == 65536);
    CHECK(scaler.state().empty());
    scaler.restore(grad_scaler<>{}.state()); // nothing happens
    grad_scaler<> on;
    CHECK(says(refusal([&] { on.restore(scaler.state()); }),
               "The source state dict is empty, possibly because it was saved from a disabled "
               "instance of GradScaler. Begin with a new scale"));
}

TEST_CASE("fp16 gradients are not unscaled where they lie; fp32 and bf16 are, once") {
    rig::machine cpu;
    optimizer one;
    const layout map = of(3);
    std::vector<fp16> half{fp16(6.5f), fp16(-2.0f), fp16(0.001f)};
    const std::vector<fp16> before = half;
    grad_scaler<> scaler;
    const auto line = refusal(
        [&] { scaler.unscale_(cpu.on, one, rig::by_unit(map, half.data()), health{}); });
    CHECK(says(line, "Attempting to unscale FP16 gradients. They would underflow"));
    CHECK(rig::same_bits(half, before));
    // what would have happened: 0.00390625 at 65536 is 6e-8 in fp16's last bit, or nothing
    CHECK(float(fp16(0.001953125f / 65536)) == 0);
    scaler.unscale(one, inspect(cpu.on, rig::by_unit(map, half.data()))); // the way to go
    CHECK(scaler.step(one));
    CHECK(scaler.update());

    std::vector<float> g{6.5536f, -65536.0f, 3e-5f};
    const auto parts = rig::by_unit(map, g.data());
    const health h = inspect(cpu.on, parts);
    scaler.unscale_(cpu.on, one, parts, h);
    CHECK(h.finite);
    CHECK(g[0] == 6.5536f * 0x1p-16f);
    CHECK(g[1] == -1);
    CHECK(says(refusal([&] { scaler.unscale_(cpu.on, one, parts, h); }),
               "already been called"));
    CHECK(g[1] == -1); // a second call is an error, not a second division
    CHECK(scaler.step(one));
    CHECK(scaler.update());
    std::vector<bf16> wide{bf16(65536.0f), bf16(1e-30f), bf16(INFINITY)};
    const auto infinite = rig::by_unit(map, wide.data());
    scaler.unscale_(cpu.on, one, infinite, inspect(cpu.on, infinite));
    CHECK(float(wide[0]) == 1);
    CHECK(float(wide[1]) > 0);
    CHECK_FALSE(scaler.step(one));
    CHECK_FALSE(scaler.update());

    // Finite here, infinite on another rank: what the ranks agreed on counts.
    health agreed = inspect(cpu.on, parts);
    CHECK(agreed.finite);
    agreed.finite = false;
    scaler.unscale_(cpu.on, one, parts, agreed, describe(agreed, map));
    CHECK_FALSE(scaler.step(one));
    CHECK_FALSE(scaler.update());
    CHECK(scaler.scale.last.why.find("0 of 3 gradients") == std::string::npos);
}

TEST_CASE("the same order over DeepSpeed's machine") {
    grad_scaler<hysteresis_scale> scaler;
    optimizer one, two;
    CHECK_FALSE(scaler.step(one, bad));
    CHECK(scaler.step(two, good));
    CHECK_FALSE(scaler.update());
    CHECK(scaler.value() == 65536); // hysteresis took it
    CHECK(scaler.scale.left() == 1);
    grad_scaler<hysteresis_scale> other;
    other.restore(scaler.state());
    CHECK_FALSE(other.step(one, bad));
    CHECK_FALSE(other.update());
    CHECK(other.value() == 32768);
}

TEST_CASE("a state taken over between unscale and update: every optimizer begins again") {
    grad_scaler<> scaler;
    optimizer one, two;
    const scale_words saved = scaler.state();
    scaler.unscale(one, bad, "block 2"); // of a step that the saved run has not seen
    CHECK(scaler.step(two, good));
    scaler.restore(saved);
    CHECK(says(refusal([&] { scaler.update(); }), "No inf checks were recorded prior to update"));
    scaler.unscale(one, bad, "block 3"); // neither a second unscale
    CHECK(scaler.step(two, good));       // nor a second step
    CHECK_FALSE(scaler.update());
    CHECK(scaler.scale.last.why == "block 3");
    CHECK(scaler.scale.skipped == 1);
}
