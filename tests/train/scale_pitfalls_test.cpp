// SPDX-License-Identifier: MIT
// Ten failures with loss scaling that runs have really had, A1 to A10, each as the case that shows
// the right behaviour. docs/chapter_05_loss_scaling.md has the table; docs/sources.md the threads.
#include "mpt/train/adamw.hpp"
#include "mpt/train/clip.hpp"
#include "mpt/train/grad_scaler.hpp"
#include "mpt/train/hysteresis_scale.hpp"
#include "mpt/train/inspect.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/schedule.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

layout of(std::size_t n) {
    layout map;
    map.add_unit("all");
    map.add("weight", {n}, 0);
    return map;
}

// A rank that trains n weights in T with a scale of its own.
template <class T, class Scale = loss_scale>
struct rank {
    explicit rank(std::size_t n) : map(of(n)), master(rig::numbers<float>(1, n, 1)), m(n), v(n),
                                   weights(n), grads(n) {}
    health look() { return inspect(cpu.on, rig::by_unit(map, grads.data())); }
    // `finite` as the ranks have agreed.
    bool step(bool finite, double lr = 1e-2) {
        const health h = look();
        const float S = scale.value;
        if (!scale.update(finite, describe(h, map))) return false;
        const double factor = clip_factor(norm(h) / S, 1) / S;
        adam.step(cpu.on, map,
                  adamw_state<T>{rig::by_unit(map, master.data()), rig::span(m), rig::span(v),
                                 rig::by_unit(map, weights.data())},
                  rig::by_unit(map, grads.data()), factor, lr);
        return true;
    }
    std::uint64_t digest() const {
        return rig::digest(weights, rig::digest(v, rig::digest(m, rig::digest(master)))) +
               std::uint64_t(adam.applied);
    }
    rig::machine cpu{1};
    layout map;
    std::vector<float> master, m, v;
    std::vector<T> weights, grads;
    Scale scale;
    adamw adam;
};

} // namespace

TEST_CASE("A1: the scale has a floor; there an overflow is an error that names the parameter") {
    rank<fp16> r(4);
    r.scale.value = 4;
    r.grads[2] = fp16(infinity);
    std::vector<float> seen;
    for (int i = 0; i < 2; ++i) {
        CHECK_FALSE(r.step(false));
        seen.push_back(r.scale.value);
    }
    CHECK(seen == std::vector<float>{2, 1});
    for (int i = 0; i < 2; ++i)
        CHECK(says(refusal([&] { r.step(false); }),
                   "1 of 4 gradients not finite, first in weight at the smallest scale 1"));
    // The same of DeepSpeed's machine with hysteresis 1.
    rank<fp16, hysteresis_scale> d(4);
    d.scale.value = 4, d.scale.hysteresis = 1;
    d.grads[2] = fp16(infinity);
    d.step(false), d.step(false);
    CHECK(d.scale.value == 1);
    CHECK(says(refusal([&] { d.step(false); }), "first in weight at the smallest scale 1"));
    // A loss of NaN is no matter of the scale, and is told as what it is.
    CHECK(says(refusal([] { check_loss(NAN, 7); }), "step 7: loss is NaN"));
}

TEST_CASE("A2: the scale does not grow past fp32") {
    loss_scale s;
    s.value = 0x1p126f, s.interval = 1;
    hysteresis_scale d;
    d.value = 0x1p126f, d.window = 1;
    d.update(true); // the first finite step is not counted there
    for (int i = 0; i < 4; ++i) {
        CHECK(s.update(true));
        CHECK(d.update(true));
        CHECK(s.value == 0x1p127f);
        CHECK(d.value == 0x1p127f);
    }
    CHECK(std::isinf(float(s.value * 2))); // what the rule without a cap would have
}

TEST_CASE("A3: one halving a skipped step, each told truthfully, counted, and ended at the floor") {
    hysteresis_scale d;
    d.window = 4;
    long told = 0;
    const std::vector<int> overflow{1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1};
    for (std::size_t i = 0; i < overflow.size(); ++i) {
        const float before = d.value;
        d.update(!overflow[i]);
        CHECK(d.value >= before / 2); // never two halvings at once
        CHECK(d.last.from == before);
        CHECK(d.last.to == d.value);
        const std::string line = d.last.line(long(i) + 1);
        CHECK(says(line, "step skipped") == bool(overflow[i]));
        CHECK(says(line, "scale stays") == (!line.empty() && before == d.value));
        told += overflow[i];
    }
    CHECK(d.skipped == told);
    // nobody skips for ever in silence
    long steps = 0;
    CHECK(says(refusal([&] { for (;; ++steps) d.update(false); }), "at the smallest scale 1"));
    CHECK(steps == 13); // hysteresis was spent: 8192 = 2^13 is 1 after 13, the next is the error
}

TEST_CASE("A4: clipped after unscaling, the step is as long as it should be") {
    rig::machine cpu;
    const layout map = of(2);
    const float S = 65536;
    std::vector<float> g{0.3f * S, 0.4f * S};
    const health h = inspect(cpu.on, rig::by_unit(map, g.data()));
    const double right = clip_factor(norm(h) / S, 1) / S;
    CHECK(double(g[0]) * right == doctest::Approx(0.3).epsilon(1e-6));
    CHECK(double(g[1]) * right == doctest::Approx(0.4).epsilon(1e-6));
    const double first = clip_factor(norm(h), 1) / S; // sabotage: clipped while still scaled
    CHECK(double(g[0]) * first == doctest::Approx(9.1553e-6).epsilon(1e-4));
    CHECK(double(g[1]) * first == doctest::Approx(1.2207e-5).epsilon(1e-4));
}

TEST_CASE("A5: over a window of micro-batches gradients are unscaled once; twice is an error") {
    rig::machine cpu;
    const layout map = of(1);
    grad_scaler<> scaler;
    adamw adam;
    std::vector<float> g{0};
    for (int micro = 0; micro < 4; ++micro) g[0] += 1.6384f; // still scaled while they add up
    const auto parts = rig::by_unit(map, g.data());
    const health h = inspect(cpu.on, parts);
    scaler.unscale_(cpu.on, adam, parts, h);
    CHECK(g[0] == doctest::Approx(1e-4).epsilon(1e-6));
    CHECK(says(refusal([&] { scaler.unscale_(cpu.on, adam, parts, h); }),
               "unscale_() has already been called on this optimizer since the last update()."));
    CHECK(g[0] == doctest::Approx(1e-4).epsilon(1e-6));
    CHECK(g[0] * scaler.inverse() == doctest::Approx(1.5e-9).epsilon(0.02)); // what it would be
    CHECK(scaler.step(adam));
    CHECK(scaler.update());
}

TEST_CASE("A6: a step that user code leaves out leaves nothing behind") {
    grad_scaler<> scaler;
    adamw adam;
    scaler.unscale(adam, health{});
    CHECK(scaler.update());
    CHECK(refusal([&] { scaler.unscale(adam, health{}); }) == "nothing");
}

TEST_CASE("A7: four ranks, an overflow on one: all skip, all scales 2 -> 1, same weights") {
    const auto run = [](bool agree) {
        std::array<rank<bf16>, 4> ranks{rank<bf16>(100), rank<bf16>(100), rank<bf16>(100),
                                        rank<bf16>(100)};
        for (rank<bf16>& r : ranks) {
            r.scale.value = 2;
            for (std::size_t i = 0; i < 100; ++i) r.grads[i] = bf16(rig::number(2, i));
        }
        const std::uint64_t before = ranks[0].digest();
        ranks[2].grads[37] = bf16(infinity);
        bool finite = true; // comm.all(finite)
        for (rank<bf16>& r : ranks) finite = r.look().finite && finite;
        for (rank<bf16>& r : ranks) r.step(agree ? finite : r.look().finite);
        bool alike = true;
        for (rank<bf16>& r : ranks) alike &= r.digest() == before && r.scale.value == 1;
        return alike;
    };
    CHECK(run(true));
    CHECK_FALSE(run(false)); // sabotage: each rank decides alone
    // A rank whose shard is empty has nothing that is not finite, and takes part.
    rig::machine cpu;
    CHECK(inspect(cpu.on, pieces<float>{}).finite);
    grad_scaler<> scaler;
    adamw adam;
    health mine = inspect(cpu.on, pieces<float>{});
    mine.finite = mine.finite && false; // comm.all: another rank has one
    scaler.unscale(adam, mine);
    CHECK_FALSE(scaler.step(adam));
    CHECK_FALSE(scaler.update());
}

TEST_CASE("A8: skipped steps do not move the schedule") {
    rank<fp16> r(3);
    const schedule rate{1e-3, 1e-3, 9, 0};
    std::vector<double> used;
    for (int attempt = 0; attempt < 5; ++attempt) {
        r.grads[1] = fp16(attempt < 3 ? infinity : 0.5f);
        const double lr = rate(r.adam.applied);
        if (r.step(r.look().finite, lr)) used.push_back(lr);
    }
    CHECK(used.size() == 2);
    CHECK(used[0] == doctest::Approx(1e-4));
    CHECK(used[1] == doctest::Approx(2e-4));
    CHECK(rate(3) == doctest::Approx(4e-4)); // sabotage: by attempts the first would be here
}

TEST_CASE("A9: bf16 is checked as well: a skip changes no bit; ten in a row are an error") {
    rank<bf16> r(2);
    r.scale = loss_scale::fixed(1);
    r.grads = {bf16(1.0f), bf16(2.0f)};
    CHECK(r.step(r.look().finite));
    const std::uint64_t before = r.digest();
    r.grads = {bf16(1.0f), bf16(infinity)};
    CHECK_FALSE(r.step(r.look().finite));
    CHECK(r.digest() == before);
    CHECK(r.scale.skipped == 1);
    for (int i = 0; i < 8; ++i) CHECK_FALSE(r.step(false));
    CHECK(says(refusal([&] { r.step(false); }), "first in weight; 10 steps in a row skipped"));
    CHECK(r.digest() == before);
    // sabotage: taken all the same, infinity reaches the master weights
    rank<bf16> taken(2);
    taken.grads = {bf16(1.0f), bf16(infinity)};
    taken.adam.step(taken.cpu.on, taken.map,
                    adamw_state<bf16>{rig::by_unit(taken.map, taken.master.data()),
                                      rig::span(taken.m), rig::span(taken.v),
                                      rig::by_unit(taken.map, taken.weights.data())},
                    rig::by_unit(taken.map, taken.grads.data()), 1, 1e-2);
    CHECK_FALSE(std::isfinite(taken.master[1]));
}

TEST_CASE("A10: GradScaler's trace saved after entry 7 goes on: tracker 2, then 512") {
    loss_scale s;
    s.value = 1024, s.interval = 3, s.minimum = 0;
    for (const int found : {0, 0, 0, 0, 0, 1, 0}) s.update(!found);
    loss_scale resumed;
    resumed.restore(s.state());
    CHECK(resumed.value == 1024);
    CHECK(resumed.good == 1);
    resumed.update(true);
    CHECK(resumed.good == 2);
    resumed.update(false);
    CHECK(resumed.value == 512);
    // DeepSpeed's has more to lose: hysteresis, iteration and last overflow are saved too.
    hysteresis_scale d;
    d.window = 4;
    for (const int found : {1, 1, 1, 0, 0, 0}) d.update(!found);
    hysteresis_scale back;
    back.restore(d.state());
    CHECK(back.value == 16384);
    CHECK(back.left() == 1);
    CHECK(back.iteration == 6);
    CHECK(back.last_overflow == 2);
    back.update(true);
    back.update(true);
    CHECK(back.value == 32768);
    CHECK(back.left() == 2);
}
