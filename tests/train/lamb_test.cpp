// SPDX-License-Identifier: MIT
#include "mpt/train/lamb.hpp"

#include "optimizer_rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

using namespace mpt;

namespace {

layout one(std::size_t n) {
    layout map;
    map.add_unit("u");
    map.add("w", {n, 1}, 1);
    return map;
}

} // namespace

TEST_CASE("p = [3,4], g = [1,-1]: the ratio and the weights, in fp64 and in fp32") {
    const auto check = [](auto type, double to) {
        using T = decltype(type);
        rig::learner<T, lamb> l(one(2), {.eps = 1e-6, .weight_decay = 0.01});
        l.weights = {3, 4};
        l.step(std::vector<T>{1, -1}, 1, 0.01);
        CHECK(l.opt.ratios[0] == doctest::Approx(3.551107685680).epsilon(to));
        CHECK(l.weights[0] == doctest::Approx(2.963423626349).epsilon(to));
        CHECK(l.weights[1] == doctest::Approx(4.034090598271).epsilon(to));
    };
    check(0.0, 1e-12);
    check(0.0f, 2e-7);
    // without decay |u| is sqrt(2): another ratio
    rig::learner<double, lamb> l(one(2), {.weight_decay = 0});
    l.weights = {3, 4};
    l.step(std::vector<double>{1, -1}, 1, 0.01);
    CHECK(l.opt.ratios[0] == doctest::Approx(5 / std::sqrt(2.0)).epsilon(1e-6));
}

TEST_CASE("where a norm is 0 the ratio is 1") {
    rig::learner<double, lamb> l(one(2), {.weight_decay = 0});
    l.weights = {0, 0}; // |p| = 0: as Adam, by lr
    l.step(std::vector<double>{5, -5}, 1, 0.01);
    CHECK(l.opt.ratios[0] == 1);
    CHECK(l.weights[0] == doctest::Approx(-0.01).epsilon(1e-6));
    l.step(std::vector<double>{5, -5}, 1, 0.01);
    CHECK(l.opt.ratios[0] < 0.1); // |p| is 0.014, |u| 1.4
    l.weights = {0, 0};           // 1 again, whatever it was a step before
    l.step(std::vector<double>{5, -5}, 1, 0.01);
    CHECK(l.opt.ratios[0] == 1);

    rig::learner<double, lamb> still(one(2), {.weight_decay = 0});
    still.weights = {3, 4}; // |u| = 0
    still.step(std::vector<double>{0, 0}, 1, 0.01);
    CHECK(still.opt.ratios[0] == 1);
    CHECK(still.weights == std::vector<double>{3, 4});
}

TEST_CASE("a step changes each tensor by lr of its length") {
    rig::learner<double, lamb> l(rig::tensors(1009), {});
    const std::vector<double> before = l.weights;
    l.step(rig::gradients<double>(l.map.size(), 1), 1, 0.01);
    for (const tensor_info& t : l.map.tensors) {
        double moved = 0, length = 0;
        for (std::size_t i = t.begin; i < t.begin + t.size; ++i) {
            moved += (l.weights[i] - before[i]) * (l.weights[i] - before[i]);
            length += before[i] * before[i];
        }
        CHECK(std::sqrt(moved / length) == doctest::Approx(0.01).epsilon(1e-9));
    }
}

TEST_CASE("sabotage: one ratio over the whole buffer is another optimizer") {
    const auto lr = [](long) { return 1e-3; };
    CHECK(rig::distance<float, float>(lamb(), 100, lr, 0, [](rig::model&) {}) < 1e-6);
    CHECK(rig::distance<float, float>(lamb(), 100, lr, 0,
                                      [](rig::model& m) { m.one_ratio = true; }) > 1e-4);
}

// Two ranks that own a half each, one after the other: both sums of all tensors are known only
// when both have added theirs. Rank 0 waits here by being run twice.
TEST_CASE("ranks that own parts add their sums; without that the ratio is of the part") {
    const layout map = rig::tensors(1009);
    const std::size_t n = map.size(), cut = 500; // within b.w
    const std::vector<float> g = rig::numbers<float>(3, n, 1);
    rig::learner<float, lamb> whole(map, {});
    whole.step(g, 1, 0.01);

    std::vector<double> all(2 * map.tensors.size());
    const auto rank = [&](std::size_t begin, std::size_t end, auto add) {
        rig::learner<float, lamb> l(map, {});
        std::vector<float> m(end - begin), v(end - begin);
        const pieces<float> mine{{{l.weights.data() + begin, end - begin}, begin}};
        const pieces<const float> grads{{{g.data() + begin, end - begin}, begin}};
        l.opt.step(l.machine.on, map,
                   optimizer_state<float>{mine, rig::span(m), rig::span(v), mine}, grads, 1, 0.01,
                   add);
        return std::vector<float>(l.weights.begin() + std::ptrdiff_t(begin),
                                  l.weights.begin() + std::ptrdiff_t(end));
    };
    const auto tell = [&](std::span<double> sums) {
        for (std::size_t i = 0; i < sums.size(); ++i) all[i] += sums[i];
    };
    const auto hear = [&](std::span<double> sums) {
        std::copy(all.begin(), all.end(), sums.begin());
    };
    rank(0, cut, tell);
    rank(cut, n, tell);
    std::vector<float> parts = rank(0, cut, hear);
    const std::vector<float> second = rank(cut, n, hear);
    parts.insert(parts.end(), second.begin(), second.end());
    CHECK(rig::same_bits(parts, whole.weights));
    // sabotage: each rank for itself
    CHECK(rank(0, cut, [](auto) {}) !=
          std::vector<float>(whole.weights.begin(), whole.weights.begin() + cut));
}

TEST_CASE("the gradients of a window are stepped with the sums of all ranks, too") {
    const layout map = rig::tensors(100);
    const std::vector<float> g = rig::numbers<float>(3, map.size(), 1);
    const auto stepped = [&](double others) {
        rig::learner<float, lamb> l(map, {});
        owned_gradients<float> window;
        window.sum = rig::by_unit<const float>(map, g.data());
        int calls = 0;
        l.opt.step(l.machine.on, map, l.own(), window, 1, 0.01, [&](std::span<double> sums) {
            for (std::size_t i = 0; i < sums.size(); i += 2) sums[i] *= others; // |p|^2 alone
            ++calls;
        });
        CHECK(calls == 1);
        return l.state();
    };
    rig::learner<float, lamb> alone(map, {});
    alone.step(g, 1, 0.01);
    CHECK(stepped(1) == alone.state());
    CHECK(stepped(4) != alone.state()); // sabotage: sums of others that change the ratio
}

TEST_CASE("the squares are added in fp64: 100 003 of 1 + 2^-12, to an ulp of that") {
    const std::size_t n = 100003;
    rig::learner<float, lamb> l(one(n), {.weight_decay = 0});
    l.weights.assign(n, 1 + 0x1p-12f);
    std::vector<double> sums;
    std::vector<float> g(n, 1);
    l.opt.step(l.machine.on, l.map, l.own(), rig::by_unit<const float>(l.map, g.data()), 1, 0.01,
               [&](std::span<double> s) { sums.assign(s.begin(), s.end()); });
    const double one_square = (1 + 0x1p-12) * (1 + 0x1p-12);
    CHECK(sums[0] == doctest::Approx(double(n) * one_square).epsilon(1e-12));
    // sabotage: a sum in fp32 stands still at 2^24 or comes out wrong long before
    float low = 0;
    for (const float w : std::vector<float>(n, 1 + 0x1p-12f)) low += w * w;
    CHECK(double(low) != doctest::Approx(double(n) * one_square).epsilon(1e-7));
}
