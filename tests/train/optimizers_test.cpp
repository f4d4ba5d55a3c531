// SPDX-License-Identifier: MIT
// What AdamW, Adam with L2, SGD and LAMB all promise; adamw_test.cpp and the others have their own.
#include "mpt/train/clip.hpp"
#include "mpt/train/inspect.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/schedule.hpp"
#include "optimizer_rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

// Each optimizer with decay, and a rate under which 1000 steps change the weights by much.
struct with_adamw {
    static adamw make() { return {.weight_decay = 0.1}; }
    static constexpr double lr = 1e-3;
};
struct with_adam {
    static adam make() { return {.weight_decay = 0.01}; }
    static constexpr double lr = 1e-3;
};
struct with_lamb {
    static lamb make() { return {}; }
    static constexpr double lr = 2e-3;
};
struct plain_sgd {
    static sgd make() { return {.momentum = 0, .weight_decay = 0.1}; }
    static constexpr double lr = 1;
};
struct momentum_sgd {
    static sgd make() { return {.momentum = 0.9, .weight_decay = 0.1}; }
    static constexpr double lr = 0.1;
};
struct nesterov_sgd {
    static sgd make() { return {.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}; }
    static constexpr double lr = 0.1;
};
#define ALL with_adamw, with_adam, with_lamb, plain_sgd, momentum_sgd, nesterov_sgd

template <class Which, class T, class G>
double after_1000(double lr_off = 0) {
    const schedule lr{Which::lr, Which::lr / 10, 50, 1000};
    return rig::distance<T, G>(Which::make(), 1000, lr, lr_off, [](auto&) {});
}

} // namespace

// p is rounded to fp32 once a step, by up to 2^-24 |p|: in the mean of squares by about 0.41 of it
// (half an ulp, uniformly, over a binade). 1000 independent roundings: sqrt(1000) * 0.41 * 2^-24
// = 7.7e-7. The changes are off by some 2^-24 of their own, at random: 1e-7 after all steps where
// they add up to the size of p. Hence 1e-6 of the length of the whole.
TEST_CASE_TEMPLATE("1000 steps agree with a model in fp64 to 1e-6", Which, ALL) {
    CHECK(after_1000<Which, float, float>() < 1e-6);
    CHECK(after_1000<Which, bf16, bf16>() < 1e-6);
    CHECK(after_1000<Which, fp16, fp16>() < 1e-6);
    CHECK(after_1000<Which, fp16, float>() < 1e-6);
    CHECK(after_1000<Which, double, double>() < 1e-12);
    // sabotage: a rate that is off by 2e-5
    CHECK(after_1000<Which, float, float>(2e-5) > 1e-6);
}

TEST_CASE_TEMPLATE("the same bits for any number of threads", Which, ALL) {
    const auto run = [](int threads, float last) {
        rig::learner<bf16, decltype(Which::make())> l(rig::tensors(100003), Which::make(), threads);
        for (std::uint32_t step = 0; step < 3; ++step) {
            std::vector<bf16> g = rig::numbers<bf16>(step, l.map.size(), 1);
            g.back() = bf16(last);
            l.step(g, 0.5, Which::lr);
        }
        return l.state();
    };
    const std::uint64_t one = run(1, 1);
    for (const int threads : {2, 3, 5}) CHECK(run(threads, 1) == one);
    CHECK(run(1, 1.5f) != one); // the digest sees one gradient of 100 177
}

TEST_CASE_TEMPLATE("the pieces may be cut anywhere", Which, ALL) {
    const layout map = rig::tensors(1009);
    const std::size_t n = map.size();
    const auto run = [&](const std::vector<std::size_t>& ends, bool last_first = false) {
        rig::learner<float, decltype(Which::make())> l(map, Which::make());
        pieces<float> mine;
        std::size_t at = 0;
        for (const std::size_t end : ends) {
            mine.push_back({{l.weights.data() + at, end - at}, at});
            at = end;
        }
        if (last_first) std::reverse(mine.begin(), mine.end());
        for (std::uint32_t step = 0; step < 3; ++step) {
            const std::vector<float> g = rig::numbers<float>(step, n, 1);
            pieces<const float> grads;
            for (const auto& p : mine)
                grads.push_back({{g.data() + p.begin, p.data.size()}, p.begin});
            l.opt.step(l.machine.on, map,
                       optimizer_state<float>{mine, rig::span(l.m), rig::span(l.v), mine}, grads, 1,
                       Which::lr);
        }
        // Weights, then moments, which lie packed: in the order of the pieces.
        std::vector<float> all = l.weights;
        for (const auto* moments : {&l.m, &l.v}) {
            std::vector<float> flat(moments->size());
            std::size_t packed = 0;
            for (const auto& p : mine)
                for (std::size_t i = 0; i < p.data.size() && !flat.empty(); ++i)
                    flat[p.begin + i] = (*moments)[packed++];
            all.insert(all.end(), flat.begin(), flat.end());
        }
        return all;
    };
    const std::vector<float> whole = run({n});
    for (const auto& ends : {std::vector<std::size_t>{1, 22, n},
                             {21, 26, n},
                             {20, 24, 25, n},
                             {26, 27, 1030, n},
                             {500, n - 1, n}})
        for (const bool last_first : {false, true}) {
            CAPTURE(last_first); // LAMB's sums in fp64: the same ratio in fp32 here
            CHECK(rig::same_bits(run(ends, last_first), whole));
        }
}

TEST_CASE_TEMPLATE("a skipped step changes no bit: one infinity among bf16 gradients", Which, ALL) {
    rig::learner<bf16, decltype(Which::make())> l(rig::tensors(1000), Which::make());
    std::vector<bf16> g = rig::numbers<bf16>(3, l.map.size(), 1);
    l.step(g, 1, Which::lr);
    const std::uint64_t before = l.state();
    g[1] = bf16(INFINITY);
    loss_scale scale = loss_scale::fixed(1);
    const auto parts = rig::by_unit<const bf16>(l.map, g.data());
    const health h = inspect(l.machine.on, parts);
    if (scale.update(h.finite, describe(h, l.map)))
        l.step(g, clip_factor(norm(h) / scale.value, 1) / scale.value, Which::lr);
    CHECK(l.state() == before);
    CHECK(l.opt.applied == 1);
    CHECK(scale.skipped == 1);
    l.step(g, 1, Which::lr); // sabotage: stepped all the same
    CHECK(l.state() != before);
    CHECK_FALSE(std::isfinite(l.master[1]));
}

TEST_CASE_TEMPLATE("a gradient of zero leaves an fp16 weight of 1 alone: no 0/0", Which, ALL) {
    layout map;
    map.add_unit("u");
    map.add("b", {2}, 0);
    rig::learner<fp16, decltype(Which::make())> l(map, Which::make());
    l.weights = {fp16(1.0f), fp16(-1.0f)};
    l.master = {1, -1};
    for (int i = 0; i < 10; ++i) l.step(std::vector<fp16>(2), 1, Which::lr);
    CHECK(float(l.weights[0]) == 1);
    CHECK(l.master[0] == 1);
    CHECK(l.master[1] == -1);
}

TEST_CASE_TEMPLATE("t counts applied steps, and the rate follows it", Which, ALL) {
    using learner = rig::learner<float, decltype(Which::make())>;
    learner l(rig::tensors(100), Which::make()), quiet(rig::tensors(100), Which::make());
    const std::vector<float> g = rig::numbers<float>(3, l.map.size(), 1);
    const schedule lr{Which::lr, Which::lr / 10, 9, 100};
    loss_scale scale;
    for (int attempt = 0; attempt < 13; ++attempt)
        if (scale.update(attempt >= 3)) l.step(g, 1, lr(l.opt.applied));
    for (int step = 0; step < 10; ++step) quiet.step(g, 1, lr(quiet.opt.applied));
    CHECK(l.opt.applied == 10);
    CHECK(l.state() == quiet.state());
    // sabotage: t counts attempts. It is in the formula of those that correct their moments.
    learner ahead(rig::tensors(100), Which::make());
    ahead.opt.applied = 3;
    for (int step = 0; step < 10; ++step) ahead.step(g, 1, lr(step));
    ahead.opt.applied = 10;
    CHECK((ahead.state() != quiet.state()) == (l.opt.moments() == 2));
}

TEST_CASE_TEMPLATE("gradients summed in fp32 step 16-bit weights, by owned_gradients", Which, ALL) {
    using learner = rig::learner<fp16, decltype(Which::make())>;
    learner from_sum(rig::tensors(100), Which::make()), from_half(rig::tensors(100), Which::make());
    const std::vector<fp16> half = rig::numbers<fp16>(3, from_sum.map.size(), 1);
    std::vector<float> sum;
    for (const fp16 g : half) sum.push_back(float(g));
    from_half.step(half, 0.25, Which::lr);
    owned_gradients<fp16> g;
    g.sum = rig::by_unit<const float>(from_sum.map, sum.data());
    from_sum.opt.step(from_sum.machine.on, from_sum.map, from_sum.own(), g, 0.25, Which::lr);
    CHECK(from_sum.state() == from_half.state());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < half.size(); ++i)
        wrong += from_half.weights[i].bits != fp16(from_half.master[i]).bits;
    CHECK(wrong == 0); // the weights are the master, rounded
}

TEST_CASE_TEMPLATE("what cannot be stepped is refused, and nothing is changed", Which, ALL) {
    rig::learner<fp16, decltype(Which::make())> l(rig::tensors(100), Which::make());
    const std::vector<fp16> g = rig::numbers<fp16>(3, l.map.size(), 1);
    const std::uint64_t before = l.state();
    const auto grads = rig::by_unit<const fp16>(l.map, g.data());
    const auto with = [&](const optimizer_state<fp16>& s, double factor, double lr) {
        return refusal([&] { l.opt.step(l.machine.on, l.map, s, grads, factor, lr); });
    };
    CHECK(says(with(l.own(), NAN, 1e-3), ": factor nan, learning rate 0.001; both must be finite"));
    CHECK(says(with(l.own(), 1e40, 1e-3), // in fp32 infinite: a gradient of 0 would become NaN
               ": factor 1e+40, learning rate 0.001; both must be finite in fp32"));
    CHECK(says(with(l.own(), -INFINITY, 1e-3), ": factor -inf"));
    CHECK(says(with(l.own(), 1, 1e39), "learning rate 1e+39"));
    CHECK(says(with(l.own(), 1, NAN), "learning rate nan"));
    CHECK(says(with(l.own(), 1, -1), "learning rate -1"));
    optimizer_state<fp16> s = l.own();
    std::vector<float> more(l.map.size() + 1);
    s.m = rig::span(more);
    CHECK(
        says(with(s, 1, 1e-3), join(": ", l.map.size(), " weights, ", more.size(), " first and ")));
    s = l.own();
    s.v = rig::span(more);
    CHECK(says(with(s, 1, 1e-3), join(more.size(), " second moments; allocate ")));
    s = l.own();
    s.weights.pop_back();
    CHECK(says(with(s, 1, 1e-3), "master and weights: 3 pieces against 2; take both from"));
    s = l.own();
    s.master.pop_back();
    CHECK(says(with(s, 1, 1e-3), "pieces against"));
    l.opt.weight_decay = -1;
    CHECK(says(with(l.own(), 1, 1e-3), "weight decay -1"));
    CHECK(l.state() == before);
}
