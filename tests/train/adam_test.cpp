// SPDX-License-Identifier: MIT
// Adam with L2, and how it differs from AdamW.
#include "mpt/train/adam.hpp"

#include "optimizer_rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace mpt;

namespace {

layout one_weight() {
    layout map;
    map.add_unit("u");
    map.add("w", {1, 1}, 1);
    return map;
}

// A weight of 1 through gradients .1, -.2, .3, 0; weight decay 0.1, lr 1e-2.
template <class T, class Optimizer>
std::vector<double> path(Optimizer o) {
    o.weight_decay = 0.1;
    rig::learner<T, Optimizer> l(one_weight(), o);
    l.weights[0] = T(1);
    std::vector<double> seen;
    for (const double g : {.1, -.2, .3, 0.}) {
        l.step(std::vector<T>{T(g)}, 1, 1e-2);
        seen.push_back(double(l.p(0)));
    }
    return seen;
}

} // namespace

TEST_CASE("one weight, four steps, the numbers of torch in fp64; AdamW's are others") {
    const double l2[4] = {0.9900000005, 0.987375197176, 0.980811594664, 0.974335448653};
    const double decoupled[4] = {0.989000001, 0.991672036038, 0.987247953358, 0.983449083481};
    const auto adam64 = path<double>(adam()), adam32 = path<float>(adam()),
               adamw64 = path<double>(adamw());
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(adam64[i] == doctest::Approx(l2[i]).epsilon(1e-11));
        CHECK(adam32[i] == doctest::Approx(l2[i]).epsilon(1e-7));
        CHECK(adamw64[i] == doctest::Approx(decoupled[i]).epsilon(1e-11));
        CHECK(std::abs(adam64[i] - decoupled[i]) > 9e-4); // the check can fail
    }
}

TEST_CASE("sabotage: AdamW's decay after the step instead of before it is seen after 1000 steps") {
    const auto lr = [](long) { return 1e-3; };
    const adamw o{.weight_decay = 0.1};
    CHECK(rig::distance<float, float>(o, 1000, lr, 0, [](rig::model&) {}) < 1e-6);
    CHECK(rig::distance<float, float>(o, 1000, lr, 0, [](rig::model& m) { m.decay_last = true; }) >
          1e-6);
}

TEST_CASE("1 - beta2 rounded once is right to 5e-8; 1 - fp32(beta2) is off by 1.3e-5") {
    const auto numbers = numbers_of<float>(adam(), 1, 1e-3, 1);
    CHECK(std::abs(double(numbers.keep2) / 0.001 - 1) < 5e-8);
    CHECK(std::abs((1 - double(0.999f)) / 0.001 - 1) == doctest::Approx(1.3e-5).epsilon(0.02));
}

TEST_CASE("without decay the two are the same, bit for bit") {
    rig::learner<float, adam> l2(rig::tensors(), {});
    rig::learner<float, adamw> decoupled(rig::tensors(), {.weight_decay = 0});
    for (std::uint32_t step = 0; step < 5; ++step) {
        const auto g = rig::gradients<float>(l2.map.size(), step);
        l2.step(g, 0.25, 1e-3);
        decoupled.step(g, 0.25, 1e-3);
    }
    CHECK(l2.state() == decoupled.state());
}

// Two weights of 1 whose gradients have no mean and differ in size by 1000. Per step AdamW takes
// lr * decay of each: the same. With L2 both have decay in their gradient, and the one whose
// gradients are large divides it by a large root.
TEST_CASE("L2 decays a weight with large gradients less, AdamW both alike") {
    const auto left = [](auto o) {
        o.weight_decay = 0.01;
        layout map;
        map.add_unit("u");
        map.add("w", {2, 1}, 1);
        rig::learner<double, decltype(o)> l(map, o);
        l.weights = {1, 1};
        for (int step = 0; step < 400; ++step) {
            const double sign = step % 2 ? 1 : -1;
            l.step(std::vector<double>{0.01 * sign, 10 * sign}, 1, 1e-3);
        }
        return l.weights;
    };
    const auto w = left(adamw()), l2 = left(adam());
    CHECK(std::abs(w[0] - w[1]) < 1e-3);
    CHECK(1 - l2[0] > 50 * (1 - l2[1])); // sizes 0.014 and 10 under the decay of 0.01
}
