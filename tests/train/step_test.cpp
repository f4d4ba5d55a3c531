// SPDX-License-Identifier: MIT
// The decisions of a step in their order: inspect, agree, update, unscale and clip once, step.
#include "mpt/train/adamw.hpp"
#include "mpt/train/clip.hpp"
#include "mpt/train/inspect.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/master_weights.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>

using namespace mpt;

namespace {

layout one_tensor(std::size_t n) {
    layout map;
    map.add_unit("all");
    map.add("weight", {n}, 0);
    return map;
}

// A rank: its weights, its optimizer, its scale, and the gradients it is shown.
struct replica {
    explicit replica(std::size_t n)
        : map(one_tensor(n)), master(rig::numbers<float>(1, n, 1)), m(n), v(n), weights(n),
          grads(n) {
        scale.value = 2;
    }
    health look() { return inspect(cpu.on, rig::by_unit(map, grads.data())); }
    // With `finite` as the ranks agreed, or did not.
    void step(bool finite) {
        const health h = look();
        const float S = scale.value;
        if (!scale.update(finite)) return;
        const double factor = h.finite ? clip_factor(norm(h) / S, 1) / S : 1 / S;
        adam.step(cpu.on, map,
                  adamw_state<bf16>{rig::by_unit(map, master.data()), rig::span(m), rig::span(v),
                                    rig::by_unit(map, weights.data())},
                  rig::by_unit(map, grads.data()), factor, 1e-2);
    }
    rig::machine cpu;
    layout map;
    std::vector<float> master, m, v;
    std::vector<bf16> weights, grads;
    loss_scale scale;
    adamw adam;
};

// Four ranks with the same weights and the same reduced gradients, but that rank 2's slice alone
// shows the overflow, as under ZeRO. Do all end alike?
bool end_alike(bool agree) {
    std::array<replica, 4> ranks{replica(100), replica(100), replica(100), replica(100)};
    for (replica& r : ranks)
        for (std::size_t i = 0; i < 100; ++i) r.grads[i] = bf16(rig::number(2, i));
    ranks[2].grads[37] = bf16(std::numeric_limits<float>::infinity());
    bool all = true; // comm.all(finite)
    for (replica& r : ranks) all &= r.look().finite;
    for (replica& r : ranks) r.step(agree ? all : r.look().finite);
    bool alike = true;
    for (replica& r : ranks)
        alike &= r.master == ranks[0].master && r.scale.value == ranks[0].scale.value;
    CHECK(ranks[2].scale.value == 1); // who saw it skips in either case
    return alike;
}

} // namespace

TEST_CASE("an overflow on one rank of four: all skip, all scales go from 2 to 1, weights stay") {
    CHECK(end_alike(true));
}
TEST_CASE("sabotage: ranks that decide alone drift apart") { CHECK(!end_alike(false)); }

TEST_CASE("gradients are unscaled once: 6.5536 at 65536 is 1e-4, and 1.5e-9 nowhere") {
    replica r(1);
    r.scale.value = 65536;
    r.adam.weight_decay = 0;
    r.grads[0] = bf16(6.5536f);
    const bf16 before = r.grads[0];
    r.look();
    r.look(); // looking twice unscales nothing
    r.step(true);
    CHECK(r.grads[0].bits == before.bits); // nor does a step: the factor is applied as it is read
    // bf16 rounds 6.5536 to 6.5625; m = (1 - beta1) g
    CHECK(r.m[0] == doctest::Approx(0.1 * 6.5625 / 65536).epsilon(1e-6));
}

TEST_CASE("a step that the caller leaves out after update() breaks nothing") {
    replica r(3);
    CHECK(r.scale.update(r.look().finite)); // and no step
    CHECK(r.scale.update(r.look().finite));
    CHECK(r.scale.good == 2);
    CHECK(r.adam.applied == 0);
}
