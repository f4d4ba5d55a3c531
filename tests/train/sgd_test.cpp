// SPDX-License-Identifier: MIT
#include "mpt/train/sgd.hpp"

#include "mpt/base/memory.hpp"
#include "optimizer_rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

layout one_weight() {
    layout map;
    map.add_unit("u");
    map.add("b", {1}, 0);
    return map;
}

std::vector<double> path(sgd o, const std::vector<double>& gradients, double lr) {
    rig::learner<double, sgd> l(one_weight(), o);
    l.weights[0] = 1;
    std::vector<double> seen;
    for (const double g : gradients) {
        l.step(std::vector<double>{g}, 1, lr);
        seen.push_back(l.p(0));
    }
    return seen;
}

void close(const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
}

} // namespace

// m: 1, 0.9 - 2 = -1.1, -0.99 + 0 = -0.99
TEST_CASE("three steps by hand: plain, with momentum, with Nesterov's look ahead") {
    close(path({.momentum = 0}, {1, -2, 0}, 0.1), {0.9, 1.1, 1.1});
    close(path({.momentum = 0.9}, {1, -2, 0}, 0.1), {0.9, 1.01, 1.109});
    // 1 + .9, -2 - .99, 0 - .891
    close(path({.momentum = 0.9, .nesterov = true}, {1, -2, 0}, 0.1), {0.81, 1.109, 1.1981});
}

TEST_CASE("a constant gradient becomes a step 1/(1 - mu) times as long") {
    const auto p = path({.momentum = 0.9}, std::vector<double>(400, 1.0), 1e-3);
    CHECK(p[398] - p[399] == doctest::Approx(1e-3 / (1 - 0.9)).epsilon(1e-10));
    std::vector<double> signs;
    for (int i = 0; i < 400; ++i) signs.push_back(i % 2 ? 1 : -1);
    const auto q = path({.momentum = 0.9}, signs, 1e-3);
    CHECK(q[398] - q[399] == doctest::Approx(1e-3 / (1 + 0.9)).epsilon(1e-10));
}

// m stands still once (1 - mu) of what is missing is below half an ulp of m, 2^-21 near 10.
TEST_CASE("the sum of equal gradients is g / (1 - mu), in fp32 to half an ulp / (1 - mu)") {
    rig::learner<float, sgd> l(one_weight(), {.momentum = 0.9});
    for (int i = 0; i < 1000; ++i) l.step(std::vector<float>{1}, 1, 0);
    CHECK(std::abs(double(l.m[0]) - 10) <= 0x1p-21 / (1 - 0.9));
}

TEST_CASE("sabotage: momentum with dampening is another optimizer") {
    const auto lr = [](long) { return 0.05; };
    const sgd o{.momentum = 0.9, .weight_decay = 0.1};
    CHECK(rig::distance<float, float>(o, 300, lr, 0, [](rig::model&) {}) < 1e-6);
    CHECK(rig::distance<float, float>(o, 300, lr, 0, [](rig::model& m) { m.dampening = 0.9; }) >
          1e-3);
}

// Of decay alone: p (1 - lr decay) at every step. In AdamW it is the same product.
TEST_CASE("decay pulls matrices towards 0, nothing else") {
    rig::learner<double, sgd> l(rig::tensors(100), {.momentum = 0, .weight_decay = 0.5});
    const std::vector<double> before = l.weights;
    for (int i = 0; i < 3; ++i) l.step(std::vector<double>(l.map.size()), 1, 0.1);
    for (const tensor_info& t : l.map.tensors)
        for (std::size_t i = t.begin; i < t.begin + t.size; ++i)
            CHECK(l.weights[i] ==
                  doctest::Approx(before[i] * (t.decays ? std::pow(0.95, 3) : 1)).epsilon(1e-12));
}

TEST_CASE("bytes a parameter in 16 bits: 12 with momentum, 8 without") {
    const auto bytes = [](const sgd& o) {
        const std::size_t n = 1009;
        memory mem;
        const buffer<fp16> weights(mem, kind::weights, n, "weights"),
            grads(mem, kind::grads, n, "g");
        const buffer<float> master(mem, kind::master, master_size<fp16>(n), "master"),
            m(mem, kind::moments, n * std::size_t(o.moments()), "m");
        CHECK(mem.books.total() % n == 0);
        return mem.books.total() / n;
    };
    CHECK(bytes({.momentum = 0.9}) == 2 + 2 + 4 + 4);
    CHECK(bytes({.momentum = 0}) == 2 + 2 + 4);
    CHECK(adamw().moments() == 2);
}

TEST_CASE("momentum without a buffer, a buffer without momentum, values out of range") {
    rig::learner<fp16, sgd> l(rig::tensors(100), {.momentum = 0.9});
    const std::vector<fp16> g(l.map.size());
    l.opt.momentum = 0;
    CHECK(says(refusal([&] { l.step(g, 1, 1); }),
               join("sgd: ", l.map.size(), " weights, ", l.map.size(),
                    " first and 0 second moments; allocate 0 and 0")));
    l.opt.momentum = 1;
    CHECK(says(refusal([&] { l.step(g, 1, 1); }),
               "sgd: momentum 1, weight decay 0; momentum lies in [0, 1)"));
    l.opt = {.momentum = 0, .nesterov = true};
    CHECK(says(refusal([&] { l.step(g, 1, 1); }), "sgd: nesterov without momentum"));
}
