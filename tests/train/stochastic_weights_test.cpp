// SPDX-License-Identifier: MIT
// 16-bit weights without a master: rounded stochastically, in the pass of each optimizer.
#include "mpt/base/memory.hpp"
#include "optimizer_rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

layout biases(std::size_t n) {
    layout map;
    map.add_unit("u");
    map.add("b", {n}, 0);
    return map;
}

struct spread {
    double mean, variance;
};
spread of(const std::vector<bf16>& x) {
    double sum = 0, squares = 0;
    for (const bf16 w : x) sum += double(float(w));
    const double mean = sum / double(x.size());
    for (const bf16 w : x) squares += (double(float(w)) - mean) * (double(float(w)) - mean);
    return {mean, squares / double(x.size())};
}

// n weights of 1, a hundred times -1e-4.
template <class Before>
spread hundred_small_steps(std::size_t n, Before before) {
    rig::learner<bf16, sgd> l(biases(n), {.momentum = 0}, 2, 11);
    l.weights.assign(n, bf16(1.0f));
    const std::vector<float> g(n, 1e-4f);
    for (int i = 0; i < 100; ++i) {
        before(l);
        l.step(g, 1, 1);
    }
    return of(l.weights);
}

// The distance of a bf16 number to the next one further from 0.
double step_of(double x) { return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7); }

// A learner without master after `steps` steps, against one in fp32: the sum of all differences, in
// units of the standard deviation that it can have at most. A rounding of a fraction f of a step s
// has mean 0 and variance f (1 - f) s^2 <= s^2 / 4; roundings are independent.
template <class Step>
double deviations(const std::vector<double>& truth, const std::vector<bf16>& weights,
                  const std::vector<double>& largest, Step steps) {
    double sum = 0, variance = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
        const double s = 2 * step_of(largest[i]); // it may wander into the next binade
        sum += double(float(weights[i])) - truth[i];
        variance += double(steps) * s * s / 4;
    }
    return sum / std::sqrt(variance);
}

template <class Optimizer>
struct outcome {
    double stochastic, nearest; // in standard deviations
};

// All gradients are positive, so that what is lost does not cancel.
template <class Optimizer>
outcome<Optimizer> against_fp32(Optimizer o, double lr) {
    const layout map = rig::tensors();
    const long steps = 100;
    rig::learner<bf16, Optimizer> without(map, o, 2, 5), nearest(map, o);
    rig::learner<float, Optimizer> wide(map, o);
    for (std::size_t i = 0; i < map.size(); ++i) { // around 1, where steps of lr are small
        without.weights[i] = nearest.weights[i] = bf16(1 + 0.5f * rig::number(1, i));
        wide.weights[i] = nearest.master[i] = float(without.weights[i]);
    }
    std::vector<double> largest(map.size());
    for (std::uint32_t step = 0; step < steps; ++step) {
        std::vector<float> g(map.size());
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = 0.5f + 0.4f * rig::number(100 + step, i);
        without.step(g, 1, lr);
        wide.step(g, 1, lr);
        nearest.step(g, 1, lr);
        for (std::size_t i = 0; i < g.size(); ++i) {
            nearest.master[i] = float(nearest.weights[i]); // as if it had none
            largest[i] = std::max(largest[i], std::abs(double(wide.weights[i])));
        }
    }
    const std::vector<double> truth(wide.weights.begin(), wide.weights.end());
    return {deviations(truth, without.weights, largest, steps),
            deviations(truth, nearest.weights, largest, steps)};
}

} // namespace

// Below 1 bf16 has steps of 2^-8, so each -1e-4 is f = 0.0256 of one: after 100 a weight has gone
// down Binomial(100, f) steps. Mean 0.01 below 1, variance 100 f (1 - f) 2^-16 = 3.8e-5 of one
// weight. fp32 rounds 1 - 1e-4 by up to 2^-25: another 3e-6 at most after 100 steps.
TEST_CASE("100 steps of -1e-4 from 1.0: nearest stays, the mean of stochastic arrives at 0.99") {
    const std::size_t n = 10007;
    const double f = 1e-4 * 256, variance = 100 * f * (1 - f) / 65536;
    const double bound = 5 * std::sqrt(variance / double(n)) + 3e-6; // 3.1e-4
    const spread right = hundred_small_steps(n, [](auto&) {});
    CHECK(std::abs(right.mean - 0.99) < bound);
    // the variance of a sample of n is off by a share of sqrt(2 / n) = 1.4 %, five times that
    CHECK(right.variance == doctest::Approx(variance).epsilon(0.07));
    // sabotage: one set of random bits for all steps moves a few weights every time, most never
    const spread same_bits = hundred_small_steps(n, [](auto& l) { l.opt.applied = 0; });
    CHECK(same_bits.variance > 50 * variance);

    // what the chapter on stalled updates shows: to nearest, without and with an fp32 master
    rig::learner<bf16, sgd> master(biases(1), {.momentum = 0});
    master.weights = {bf16(1.0f)};
    master.master = {1.0f};
    float alone = 1.0f;
    for (int i = 0; i < 100; ++i) {
        master.step(std::vector<float>{1e-4f}, 1, 1);
        alone = float(bf16(alone - 1e-4f));
    }
    CHECK(alone == 1.0f);
    CHECK(master.master[0] == 0.98999834f);
    CHECK(float(master.weights[0]) == 0.98828125f);
}

TEST_CASE("every optimizer does without a master: on average what fp32 does; nearest does not") {
    const auto holds = [](const auto& z) {
        CHECK(std::abs(z.stochastic) < 5);
        CHECK(std::abs(z.nearest) > 10); // sabotage
    };
    holds(against_fp32(adamw{}, 1e-4));
    holds(against_fp32(adam{.weight_decay = 0.01}, 1e-4));
    holds(against_fp32(lamb{}, 1e-4));
    holds(against_fp32(sgd{.momentum = 0}, 3e-4));
    holds(against_fp32(sgd{.momentum = 0.9, .weight_decay = 0.1}, 3e-5));
}

TEST_CASE_TEMPLATE("the same bits for any number of threads, any cut, and after a break", T, bf16,
                   fp16) {
    const auto run = [](int threads, std::uint64_t seed, long pause) {
        auto l =
            std::make_unique<rig::learner<T, adamw>>(rig::tensors(40009), adamw(), threads, seed);
        for (std::uint32_t step = 0; step < 6; ++step) {
            if (step == pause) { // saved, and read into a fresh one
                auto fresh = std::make_unique<rig::learner<T, adamw>>(rig::tensors(40009), adamw(),
                                                                      threads, seed);
                fresh->weights = l->weights, fresh->m = l->m, fresh->v = l->v;
                fresh->opt.applied = l->opt.applied;
                l = std::move(fresh);
            }
            l->step(rig::numbers<T>(step, l->map.size(), 1), 0.5, 1e-3);
        }
        return l->state();
    };
    const std::uint64_t one = run(1, 3, -1);
    for (const int threads : {2, 3, 5}) CHECK(run(threads, 3, -1) == one);
    CHECK(run(2, 3, 4) == one);
    CHECK(run(2, 4, -1) != one); // another seed

    const layout map = rig::tensors(1009);
    const auto in_parts = [&](std::size_t cut, bool own_numbers) {
        rig::learner<T, adamw> l(map, {}, 2, 3);
        const auto g = rig::numbers<T>(1, map.size(), 1);
        const std::size_t n = map.size(), second = own_numbers ? 0 : cut;
        const pieces<T> mine{{{l.weights.data(), cut}, 0},
                             {{l.weights.data() + cut, n - cut}, second}};
        const pieces<const T> grads{{{g.data(), cut}, 0}, {{g.data() + cut, n - cut}, second}};
        l.opt.step(l.machine.on, map,
                   optimizer_state<T>{{}, rig::span(l.m), rig::span(l.v), mine, 3}, grads, 1, 1e-3);
        return l.state();
    };
    const std::uint64_t whole = in_parts(map.size(), false);
    for (const std::size_t cut : {1u, 77u, 128u, 500u}) CHECK(in_parts(cut, false) == whole);
    CHECK(in_parts(77, true) != whole); // sabotage: numbers counted from the piece's beginning
}

TEST_CASE_TEMPLATE("what does not move is not rounded: a gradient of zero, a skipped step", T, bf16,
                   fp16) {
    rig::learner<T, adamw> l(rig::tensors(1009), {.weight_decay = 0}, 2, 1);
    const std::vector<T> before = l.weights;
    for (int i = 0; i < 10; ++i) l.step(std::vector<T>(l.map.size()), 1, 1e-3);
    CHECK(rig::same_bits(l.weights, before)); // numbers of the format stay what they are
    CHECK(l.opt.applied == 10);
}

TEST_CASE("bytes a parameter: AdamW 2 + 2 + 8 = 12 instead of 16, plain SGD 2 + 2") {
    const auto bytes = [](auto o) {
        const std::size_t n = 1009;
        memory mem;
        const buffer<bf16> weights(mem, kind::weights, n, "weights"),
            grads(mem, kind::grads, n, "g");
        const buffer<float> moments(mem, kind::moments, n * std::size_t(o.moments()), "moments");
        return mem.books.total() / n;
    };
    CHECK(bytes(adamw()) == 2 + 2 + 8);
    CHECK(bytes(sgd{.momentum = 0}) == 2 + 2);
}

TEST_CASE("a master or a seed, not both and not none; fp32 needs neither") {
    rig::learner<bf16, adamw> l(rig::tensors(100), {});
    const std::vector<bf16> g = rig::numbers<bf16>(3, l.map.size(), 1);
    const auto grads = rig::by_unit<const bf16>(l.map, g.data());
    const std::uint64_t before = l.state();
    optimizer_state<bf16> s = l.own();
    s.rounding_seed = 1;
    const auto step = [&] { l.opt.step(l.machine.on, l.map, s, grads, 1, 1e-3); };
    CHECK(says(refusal(step), "adamw: a master and a rounding_seed; pass one of the two"));
    s.master.clear();
    s.rounding_seed.reset();
    CHECK(says(refusal(step), "adamw: weights of bf16 without a master; pass master_of(), or a"));
    CHECK(l.state() == before);
    s.rounding_seed = 1;
    CHECK(refusal(step) == "nothing");

    rig::learner<float, adamw> wide(rig::tensors(100), {});
    optimizer_state<float> w = wide.own();
    w.rounding_seed = 1;
    const std::vector<float> h(wide.map.size());
    CHECK(says(refusal([&] {
                   wide.opt.step(wide.machine.on, wide.map, w,
                                 rig::by_unit<const float>(wide.map, h.data()), 1, 1e-3);
               }),
               "adamw: weights of fp32 with a rounding_seed; they are their own master"));
}
