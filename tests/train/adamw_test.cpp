// SPDX-License-Identifier: MIT
#include "mpt/train/adamw.hpp"

#include "mpt/train/clip.hpp"
#include "mpt/train/inspect.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/master_weights.hpp"
#include "mpt/train/schedule.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

// Tensors that decay and tensors that do not, over two units.
layout mixed(std::size_t large = 1000) {
    layout map;
    map.add_unit("a");
    map.add("a.w", {7, 3}, 1);
    map.add("a.b", {5}, 0);
    map.add_unit("b");
    map.add("b.w", {large, 1}, 1);
    map.add("b.gain", {300}, 0, 1);
    map.add("b.w2", {2, 65}, 1);
    return map;
}

// All that a rank holds, and one step on it.
template <class T>
struct learner {
    using W = wide_t<T>;
    explicit learner(layout l, int threads = 2)
        : map(std::move(l)), machine(threads), weights(rig::numbers<T>(1, map.size(), 1)),
          master(master_size<T>(map.size())), m(map.size()), v(map.size()) {
        for (std::size_t i = 0; i < master.size(); ++i) master[i] = widen(weights[i]);
    }
    adamw_state<T> own() {
        const pieces<T> mine = rig::by_unit<T>(map, weights.data());
        return {master_of<T>(rig::span(master), mine), rig::span(m), rig::span(v), mine};
    }
    template <class G>
    void step(const std::vector<G>& g, double factor, double lr) {
        opt.step(machine.on, map, own(), rig::by_unit<const G>(map, g.data()), factor, lr);
    }
    W p(std::size_t i) const { return master.empty() ? W(widen(weights[i])) : master[i]; }
    std::uint64_t state() const {
        return rig::digest(weights, rig::digest(master, rig::digest(m, rig::digest(v)))) ^
               std::uint64_t(opt.applied);
    }

    layout map;
    rig::machine machine;
    adamw opt;
    std::vector<T> weights;
    std::vector<W> master, m, v;
};

// The same in fp64, an element at a time, as algorithm and not as loop.
struct model {
    std::vector<double> p, m, v;
    long t = 0;
    explicit model(std::size_t n) : p(n), m(n), v(n) {}
    template <class G>
    void step(const adamw& o, const layout& map, const std::vector<G>& g, double factor,
              double lr) {
        ++t;
        for (const tensor_info& tensor : map.tensors)
            for (std::size_t i = tensor.begin; i < tensor.begin + tensor.size; ++i) {
                const double gi = double(widen(g[i])) * factor;
                if (tensor.decays) p[i] *= 1 - lr * o.weight_decay;
                m[i] = o.beta1 * m[i] + (1 - o.beta1) * gi;
                v[i] = o.beta2 * v[i] + (1 - o.beta2) * gi * gi;
                const double mean = m[i] / (1 - std::pow(o.beta1, double(t)));
                const double square = v[i] / (1 - std::pow(o.beta2, double(t)));
                p[i] -= lr * mean / (std::sqrt(square) + o.eps);
            }
    }
};

// |master - model| / |model| after 1000 steps on random gradients, scaled by 1024; lr_off: a
// relative error put into the rate of the one but not of the other.
template <class T>
double distance(double lr_off) {
    learner<T> l(mixed(100));
    l.opt.weight_decay = 0.1;
    model q(l.map.size());
    for (std::size_t i = 0; i < q.p.size(); ++i) q.p[i] = double(l.p(i));
    const schedule lr{1e-3, 1e-4, 50, 1000};
    for (std::uint32_t step = 0; step < 1000; ++step) {
        std::vector<T> g = rig::numbers<T>(100 + step, l.map.size(), 50);
        for (std::size_t i = 0; i < g.size(); i += 3) // some with a mean
            g[i] = narrow<T>(wide_t<T>(widen(g[i]) + wide_t<T>(float(i % 7) - 3)));
        l.step(g, 1.0 / 1024, lr(long(step)) * (1 + lr_off));
        q.step(l.opt, l.map, g, 1.0 / 1024, lr(long(step)));
    }
    double apart = 0, length = 0;
    for (std::size_t i = 0; i < q.p.size(); ++i) {
        const double d = double(l.p(i)) - q.p[i];
        apart += d * d;
        length += q.p[i] * q.p[i];
    }
    return std::sqrt(apart / length);
}

// A weight of 1 through gradients g; weight decay 0.1, lr 1e-2.
template <class T>
std::vector<double> path(const std::vector<double>& gradients) {
    layout map;
    map.add_unit("u");
    map.add("w", {1, 1}, 1);
    learner<T> l(map);
    l.opt.weight_decay = 0.1;
    l.weights[0] = narrow<T>(wide_t<T>(1));
    std::vector<double> seen;
    for (const double g : gradients) {
        l.step(std::vector<T>{narrow<T>(wide_t<T>(g))}, 1, 1e-2);
        seen.push_back(double(l.p(0)));
    }
    return seen;
}

} // namespace

TEST_CASE("one weight, four steps, the numbers of torch in fp64") {
    const std::vector<double> want{0.9890000009999999, 0.9916720360378488, 0.9872479533577363,
                                   0.9834490834806032};
    const std::vector<double> in_fp64 = path<double>({.1, -.2, .3, 0}),
                              in_fp32 = path<float>({.1, -.2, .3, 0});
    // Adam with decay as part of the gradient (L2): another optimizer, told apart
    const std::vector<double> l2{0.9900000005, 0.9873751971761289, 0.980811594663504,
                                 0.974335448652511};
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(in_fp64[i] == doctest::Approx(want[i]).epsilon(1e-12));
        CHECK(in_fp32[i] == doctest::Approx(want[i]).epsilon(1e-7)); // an ulp or two
        CHECK(in_fp32[i] != doctest::Approx(l2[i]).epsilon(1e-4));
    }
}

TEST_CASE("the first step is lr whatever the gradient, unless that is near eps") {
    layout map;
    map.add_unit("u");
    map.add("b", {3}, 0);
    learner<double> l(map);
    l.weights = {0, 0, 0};
    l.step(std::vector<double>{1e-6, 1.0, 1e3}, 1, 1e-3);
    CHECK(-l.weights[0] == doctest::Approx(0.000990099009900991).epsilon(1e-9));
    CHECK(-l.weights[1] == doctest::Approx(0.00099999999).epsilon(1e-9));
    CHECK(-l.weights[2] == doctest::Approx(0.001).epsilon(1e-9));
}

// p is rounded to fp32 once a step: by up to 2^-24 |p|, in the mean of squares by about 0.41 of it
// (half an ulp, uniformly, over a binade). 1000 independent roundings: sqrt(1000) * 0.41 * 2^-24
// = 7.7e-7. The step itself, a thousandth of p or less, is off by some 2^-24 of its own through m,
// v (v's own walk: sqrt(500) roundings, halved by the root) and its five operations: below 1e-8 of
// p a thousand times, at random: 1e-7. Hence 1e-6 of the length of the whole.
TEST_CASE_TEMPLATE("1000 steps agree with a model in fp64 to 1e-6", T, float, fp16, bf16) {
    CHECK(distance<T>(0) < 1e-6);
}
TEST_CASE("... to 1e-12 in fp64") { CHECK(distance<double>(0) < 1e-12); }
TEST_CASE("sabotage: a rate off by 1e-5 is outside of that bound") {
    CHECK(distance<float>(1e-5) > 1e-6);
}

TEST_CASE_TEMPLATE("weights are the master rounded, in the same pass", T, fp16, bf16) {
    learner<T> l(mixed(20011));
    l.step(rig::numbers<T>(3, l.map.size(), 1), 1, 0.1);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < l.weights.size(); ++i)
        wrong += l.weights[i].bits != T(l.master[i]).bits;
    CHECK(wrong == 0);
}

TEST_CASE("fp32 weights beside a master of their own are the same as without one") {
    learner<float> own(mixed()), beside(mixed());
    std::vector<float> master = beside.weights;
    const std::vector<float> g = rig::numbers<float>(3, own.map.size(), 1);
    own.step(g, 0.5, 1e-2);
    adamw_state<float> s = beside.own();
    s.master = rig::by_unit<float>(beside.map, master.data());
    beside.opt.step(beside.machine.on, beside.map, s,
                    rig::by_unit<const float>(beside.map, g.data()), 0.5, 1e-2);
    CHECK(rig::same_bits(own.weights, beside.weights));
    CHECK(rig::same_bits(own.weights, master));
}

TEST_CASE("gradients summed in fp32 step 16-bit weights") {
    learner<fp16> from_sum(mixed()), from_half(mixed());
    const std::vector<fp16> half = rig::numbers<fp16>(3, from_sum.map.size(), 1);
    std::vector<float> sum;
    for (const fp16 g : half) sum.push_back(float(g));
    from_half.step(half, 0.25, 1e-2);
    owned_gradients<fp16> g;
    g.sum = rig::by_unit<const float>(from_sum.map, sum.data());
    from_sum.opt.step(from_sum.machine.on, from_sum.map, from_sum.own(), g, 0.25, 1e-2);
    CHECK(from_sum.state() == from_half.state());
}

TEST_CASE("a skipped step changes no bit: one infinity among bf16 gradients") {
    learner<bf16> l(mixed());
    std::vector<bf16> g = rig::numbers<bf16>(3, l.map.size(), 1);
    l.step(g, 1, 1e-3);
    const std::uint64_t before = l.state();
    g[1] = bf16(INFINITY);
    loss_scale scale = loss_scale::fixed(1);
    const auto attempt = [&] {
        const auto parts = rig::by_unit<const bf16>(l.map, g.data());
        const health h = inspect(l.machine.on, parts);
        if (scale.update(h.finite, h.finite ? "" : describe(h, l.map)))
            l.step(g, clip_factor(norm(h) / scale.value, 1) / scale.value, 1e-3);
    };
    attempt();
    CHECK(l.state() == before);
    CHECK(scale.skipped == 1);
    CHECK(says(scale.last.line(1), "1 of 1456 gradients not finite, first in a.w"));
    for (int i = 0; i < 8; ++i) attempt();
    CHECK(says(refusal(attempt), "10 steps in a row"));
    // sabotage: without the check moments and weights are poisoned for good
    l.step(g, 1, 1e-3);
    CHECK(l.state() != before);
    g[1] = bf16(0.0f);
    l.step(g, 1, 1e-3);
    CHECK_FALSE(std::isfinite(l.v[1]));
    CHECK_FALSE(std::isfinite(l.master[1]));
}

TEST_CASE("a gradient of zero leaves an fp16 weight of 1 alone: no 0/0") {
    CHECK(path<fp16>({0, 0, 0}).size() == 3);
    layout map;
    map.add_unit("u");
    map.add("b", {2}, 0);
    learner<fp16> l(map);
    l.weights = {fp16(1.0f), fp16(-1.0f)};
    l.master = {1, -1};
    for (int i = 0; i < 10; ++i) l.step(std::vector<fp16>(2), 1, 1e-3);
    CHECK(float(l.weights[0]) == 1);
    CHECK(l.master[1] == -1);
    // sabotage: eps in the format of the weights
    CHECK(float(fp16(1e-8f)) == 0);
    l.opt.eps = double(float(fp16(1e-8f)));
    l.step(std::vector<fp16>(2), 1, 1e-3);
    CHECK(std::isnan(l.master[0]));
}

TEST_CASE("a small gradient is unscaled in fp32: in fp16 it would be 0") {
    const float S = 65536, scaled = 0.001171875f;
    layout map;
    map.add_unit("u");
    map.add("b", {1}, 0);
    const auto m_of = [&](fp16 g, double factor) { // m after one step is 0.1 g
        learner<fp16> l(map);
        l.step(std::vector<fp16>{g}, factor, 1e-3);
        return l.m[0] / 0.1f;
    };
    CHECK(m_of(fp16(1e-8f * S), 1.0 / S) == doctest::Approx(9.997165761888027e-09).epsilon(1e-6));
    CHECK(m_of(fp16(scaled), 1.0 / S) == doctest::Approx(1.7881393432617188e-08).epsilon(1e-6));
    // sabotage: without scaling the gradient is lost, and so it is when unscaled in place
    CHECK(m_of(fp16(1e-8f), 1) == 0);
    CHECK(m_of(fp16(float(fp16(scaled)) / S), 1) == 0);
}

TEST_CASE("decay is for matrices only, also where a piece cuts a tensor") {
    const layout map = mixed();
    // every cut of the buffer into three pieces at these places gives what one piece gives
    const auto run = [&](const std::vector<std::size_t>& ends, bool forget_offset = false) {
        learner<float> l(map);
        l.opt.weight_decay = 0.5;
        const std::vector<float> g(map.size()); // nothing but decay moves a weight
        pieces<float> mine;
        pieces<const float> grads;
        std::size_t at = 0;
        for (const std::size_t end : ends) {
            const std::size_t begin = forget_offset ? 0 : at;
            mine.push_back({{l.weights.data() + at, end - at}, begin});
            grads.push_back({{g.data() + at, end - at}, begin});
            at = end;
        }
        const adamw_state<float> own{mine, rig::span(l.m), rig::span(l.v), mine};
        l.opt.step(l.machine.on, map, own, grads, 1, 0.1);
        return l.weights;
    };
    const std::size_t n = map.size();
    const std::vector<float> before = rig::numbers<float>(1, n, 1), whole = run({n});
    for (const tensor_info& t : map.tensors)
        for (std::size_t i = t.begin; i < t.begin + t.size; ++i) {
            const float want = t.decays ? before[i] - 0.05f * before[i] : before[i];
            CHECK(whole[i] == want);
        }
    for (const auto& ends : {std::vector<std::size_t>{1, 22, n}, {21, 26, n}, {20, 24, 25, n},
                             {26, 1026, 1200, n}, {500, n - 1, n}})
        CHECK(rig::same_bits(run(ends), whole));
    CHECK_FALSE(rig::same_bits(run({20, 24, 25, n}, true), whole)); // sabotage: piece-local indices
}

TEST_CASE_TEMPLATE("the same bits for any number of threads", T, float, fp16, bf16, double) {
    const auto run = [](int threads, float last) {
        learner<T> l(mixed(100003), threads);
        for (std::uint32_t step = 0; step < 3; ++step) {
            std::vector<T> g = rig::numbers<T>(step, l.map.size(), 1);
            g.back() = narrow<T>(wide_t<T>(last));
            l.step(g, 0.5, 1e-3);
        }
        return l.state();
    };
    const std::uint64_t one = run(1, 1);
    for (const int threads : {2, 3, 5}) CHECK(run(threads, 1) == one);
    CHECK(run(1, 1.5f) != one); // the digest sees one gradient of 100 459
}

TEST_CASE("the same bits with any instructions") { // this file is also built without -march=native
    std::uint64_t h = 0;
    const auto add = [&h](auto&& l) {
        using T = std::decay_t<decltype(l.weights[0])>;
        for (std::uint32_t step = 0; step < 5; ++step)
            l.step(rig::numbers<T>(step, l.map.size(), 1), 0.37, 1e-3);
        h = h * 31 + l.state();
    };
    add(learner<float>(mixed(4999)));
    add(learner<fp16>(mixed(4999)));
    add(learner<bf16>(mixed(4999)));
    add(learner<double>(mixed(4999)));
    CHECK(h == 5164170585318977715u);
}

TEST_CASE("the schedule and t advance by applied steps only") {
    learner<float> l(mixed()), quiet(mixed());
    const std::vector<float> g = rig::numbers<float>(3, l.map.size(), 1);
    const schedule lr{1e-3, 1e-4, 9, 100};
    loss_scale scale;
    for (int attempt = 0; attempt < 13; ++attempt)
        if (scale.update(attempt >= 3)) l.step(g, 1, lr(l.opt.applied));
    for (int step = 0; step < 10; ++step) quiet.step(g, 1, lr(quiet.opt.applied));
    CHECK(l.opt.applied == 10);
    CHECK(l.state() == quiet.state());
    // sabotage: a rate that counts attempts
    learner<float> ahead(mixed());
    for (int step = 0; step < 10; ++step) ahead.step(g, 1, lr(step + 3));
    CHECK(ahead.state() != quiet.state());
}

TEST_CASE("what cannot be stepped is refused, and nothing is changed") {
    learner<fp16> l(mixed());
    const std::vector<fp16> g = rig::numbers<fp16>(3, l.map.size(), 1);
    const std::uint64_t before = l.state();
    CHECK(says(refusal([&] { l.step(g, NAN, 1e-3); }), "factor nan"));
    CHECK(says(refusal([&] { l.step(g, 1, INFINITY); }), "learning rate inf"));
    CHECK(says(refusal([&] { l.step(g, 1, -1); }), "learning rate -1"));
    CHECK(l.state() == before);
    adamw_state<fp16> s = l.own();
    const auto grads = rig::by_unit<const fp16>(l.map, g.data());
    const auto with = [&](adamw_state<fp16> state, pieces<const fp16> parts) {
        return refusal([&] { l.opt.step(l.machine.on, l.map, state, parts, 1, 1e-3); });
    };
    CHECK(with(s, grads) == "nothing");
    const std::uint64_t after = l.state();
    CHECK(after != before);
    CHECK(says(with(s, {grads[0]}), "2 pieces against 1"));
    s.m = s.m.first(3);
    CHECK(says(with(s, grads), "3 first and 1456 second moments"));
    s = l.own();
    s.weights[1].begin -= 1;
    CHECK(says(with(s, grads), "master and weights: piece 1"));
    l.opt.beta2 = 1;
    CHECK(says(with(l.own(), grads), "beta2 1"));
    CHECK(l.state() == after);
}
