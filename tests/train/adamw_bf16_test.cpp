// SPDX-License-Identifier: MIT
#include "mpt/train/adamw_bf16.hpp"

#include "mpt/base/memory.hpp"
#include "mpt/train/master_weights.hpp"
#include "optimizer_rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

template <class T>
struct learner {
    explicit learner(layout l, int threads = 2, std::optional<std::uint64_t> seed = {})
        : map(std::move(l)), machine(threads), rounding_seed(seed),
          weights(rig::numbers<T>(1, map.size(), 1)), master(seed ? 0 : master_size<T>(map.size())),
          m(map.size()), v(map.size()) {
        for (std::size_t i = 0; i < master.size(); ++i) master[i] = widen(weights[i]);
    }
    bf16_moments<T> own() {
        bf16_moments<T> s;
        s.weights = rig::by_unit<T>(map, weights.data());
        s.rounding_seed = rounding_seed;
        if (!rounding_seed) s.master = master_of<T>(rig::span(master), s.weights);
        s.m_low = rig::span(m), s.v_low = rig::span(v), s.moments_seed = moments_seed;
        return s;
    }
    template <class G>
    void step(const std::vector<G>& g, double factor, double lr) {
        opt.step(machine.on, map, own(), rig::by_unit<const G>(map, g.data()), factor, lr);
    }
    std::uint64_t state() const {
        return rig::digest(weights, rig::digest(master, rig::digest(m, rig::digest(v)))) ^
               std::uint64_t(opt.applied);
    }

    layout map;
    rig::machine machine;
    adamw_bf16 opt;
    std::optional<std::uint64_t> rounding_seed;
    std::uint64_t moments_seed = 3;
    std::vector<T> weights;
    std::vector<float> master;
    std::vector<bf16> m, v;
};

layout biases(std::size_t n) {
    layout map;
    map.add_unit("u");
    map.add("b", {n}, 0);
    return map;
}

double mean(const std::vector<bf16>& x) {
    double sum = 0;
    for (const bf16 y : x) sum += double(float(y));
    return sum / double(x.size());
}

// The distance of a bf16 number to the next one further from 0.
double step_of(double x) { return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7); }

// Sum of all differences to fp32, in units of the standard deviation that it can have at most: a
// rounding has mean 0 and variance at most s^2 / 4, of a step s; a share `keep` of its error is
// left after a step.
double deviations(const std::vector<bf16>& low, const std::vector<float>& wide,
                  const std::vector<float>& largest, double keep) {
    double sum = 0, variance = 0;
    for (std::size_t i = 0; i < low.size(); ++i) {
        const double s = 2 * step_of(double(largest[i])); // it may wander into the next binade
        sum += double(float(low[i])) - double(wide[i]);
        variance += s * s / 4 / (1 - keep * keep);
    }
    return sum / std::sqrt(variance);
}

} // namespace

// v falls by 1/1000 of itself in a step without gradient: to .999^1000 = .3677. Its roundings have
// a variance of 2^-16 / 4 at most (v < 1: steps of 2^-8), so the mean of 10007 is within
// 5 sqrt(1000 / 4 / 10007) 2^-8 = 3.1e-3; fp32's own 1000 roundings add 6e-5 at most.
TEST_CASE("v of 1 through 1000 steps without gradient: nearest stays, stochastic arrives") {
    const std::size_t n = 10007;
    learner<float> l(biases(n));
    l.v.assign(n, bf16(1.0f));
    float fp32 = 1, nearest = 1;
    const std::vector<float> none(n);
    for (int t = 0; t < 1000; ++t) {
        l.step(none, 1, 1e-3);
        fp32 += 1e-3f * (0 - fp32);
        nearest = float(bf16(nearest + 1e-3f * (0 - nearest)));
    }
    CHECK(fp32 == doctest::Approx(std::pow(.999, 1000)).epsilon(1e-4));
    CHECK(std::abs(mean(l.v) - double(fp32)) < 3.2e-3);
    CHECK(nearest == 1); // for ever: the change is a quarter of a step
    CHECK(std::all_of(l.v.begin(), l.v.end(), [](bf16 x) { return float(x) >= 0; }));
    // sabotage: one set of random bits for all steps
    learner<float> same(biases(n));
    same.v.assign(n, bf16(1.0f));
    for (int t = 0; t < 1000; ++t) same.opt.applied = 0, same.step(none, 1, 1e-3);
    CHECK(std::abs(mean(same.v) - double(fp32)) > 3.2e-3);
}

TEST_CASE("v of 1 does not rise by nearest either, below a gradient of two") {
    const auto up = [](float g) { return float(bf16(1 + 1e-3f * (g * g - 1))) > 1; };
    CHECK_FALSE(up(2.0f)); // 4 times the mean square: + .003, half a step is .0039
    CHECK(up(2.3f));
    // betas of .95: 5 % of the difference is a step of bf16 and more, nearest mostly does
    CHECK(float(bf16(1 + 0.05f * (2 - 1))) > 1);
}

TEST_CASE("moments are those of AdamW in fp32 on average") {
    const layout map = rig::tensors(5003);
    learner<float> l(map);
    rig::learner<float, adamw> wide(map, {});
    l.v.assign(map.size(), bf16(1.0f)); // as after larger gradients: it falls by 7 %
    wide.v.assign(map.size(), 1.0f);
    std::vector<bf16> nearest_v = l.v;
    std::vector<float> largest_m(map.size()), largest_v(map.size());
    for (std::uint32_t t = 0; t < 100; ++t) {
        std::vector<float> g(map.size());
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = 0.5f + 0.4f * rig::number(100 + t, i);
        l.step(g, 1, 1e-4);
        wide.step(g, 1, 1e-4);
        for (std::size_t i = 0; i < g.size(); ++i) {
            const float v = float(nearest_v[i]);
            nearest_v[i] = bf16(v + 1e-3f * (g[i] * g[i] - v));
            largest_m[i] = std::max(largest_m[i], std::abs(wide.m[i]));
            largest_v[i] = std::max(largest_v[i], wide.v[i]);
        }
    }
    CHECK(std::abs(deviations(l.m, wide.m, largest_m, 0.9)) < 5);
    CHECK(std::abs(deviations(l.v, wide.v, largest_v, 0.999)) < 5);
    CHECK(std::abs(deviations(nearest_v, wide.v, largest_v, 0.999)) > 10); // sabotage
    // the weights: each step is off by less than the moments' share, 2^-7, of lr
    double apart = 0;
    for (std::size_t i = 0; i < map.size(); ++i)
        apart = std::max(apart, std::abs(double(l.weights[i]) - double(wide.weights[i])));
    CHECK(apart < 100 * 1e-4 * 0.05);
    CHECK(apart > 0);
}

TEST_CASE_TEMPLATE("the same bits for any number of threads and any cut", T, float, fp16, bf16) {
    const auto run = [](int threads, std::uint64_t seed, float last) {
        learner<T> l(rig::tensors(40009), threads,
                     own_master<T> ? std::nullopt : std::optional(seed));
        l.moments_seed = seed;
        for (std::uint32_t step = 0; step < 3; ++step) {
            std::vector<T> g = rig::numbers<T>(step, l.map.size(), 1);
            g.back() = narrow<T>(wide_t<T>(last));
            l.step(g, 0.5, 1e-3);
        }
        return l.state();
    };
    const std::uint64_t one = run(1, 3, 1);
    for (const int threads : {2, 3, 5}) CHECK(run(threads, 3, 1) == one);
    CHECK(run(1, 4, 1) != one);
    CHECK(run(1, 3, 1.5f) != one);

    const layout map = rig::tensors(1009);
    const auto in_parts = [&](std::size_t cut, bool own_numbers) {
        learner<T> l(map);
        const auto g = rig::numbers<T>(1, map.size(), 1);
        const std::size_t n = map.size(), second = own_numbers ? 0 : cut;
        bf16_moments<T> s = l.own();
        s.weights = {{{l.weights.data(), cut}, 0}, {{l.weights.data() + cut, n - cut}, second}};
        s.master = master_of<T>(rig::span(l.master), s.weights);
        l.opt.step(l.machine.on, map, s,
                   pieces<const T>{{{g.data(), cut}, 0}, {{g.data() + cut, n - cut}, second}}, 1,
                   1e-3);
        return l.state();
    };
    const std::uint64_t whole = in_parts(map.size(), false);
    for (const std::size_t cut : {1u, 77u, 128u, 500u}) CHECK(in_parts(cut, false) == whole);
    CHECK(in_parts(77, true) != whole); // sabotage: numbers counted from the piece's beginning
}

TEST_CASE("m, v and weights draw different bits") {
    const std::size_t n = 1009;
    learner<bf16> l(biases(n), 2, 3); // the seed of the weights is that of the moments
    l.opt.weight_decay = 0;
    l.weights.assign(n, bf16(1.0f));
    l.step(std::vector<float>(n, 0.3f), 1, 1e-3);
    std::size_t m_up = 0, v_up = 0, both = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const bool mu = float(l.m[i]) > 0.03f, vu = float(l.v[i]) > 9e-5f;
        m_up += mu, v_up += vu, both += mu && vu;
    }
    // as many as independent ones, to 5 standard deviations of a count: 5 sqrt(n) / 2 = 79
    CHECK(std::abs(double(both) - double(m_up) * double(v_up) / double(n)) < 79);
    CHECK(m_up > 100);
    CHECK(v_up > 100);
}

TEST_CASE("bytes a parameter: 2 + 2 + 4 + 4 = 12, and 8 without a master") {
    const std::size_t n = 1009;
    memory mem;
    const buffer<bf16> weights(mem, kind::weights, n, "w"), grads(mem, kind::grads, n, "g"),
        m(mem, kind::moments, n, "m"), v(mem, kind::moments, n, "v");
    CHECK(mem.books.total() == 8 * n);
    const buffer<float> master(mem, kind::master, n, "master");
    CHECK(mem.books.total() == 12 * n);
    CHECK(mem.books.now(kind::moments) == 4 * n);
}

TEST_CASE("what cannot be stepped is refused, and nothing is changed") {
    learner<fp16> l(rig::tensors(100));
    const std::vector<fp16> g = rig::numbers<fp16>(3, l.map.size(), 1);
    const std::uint64_t before = l.state();
    bf16_moments<fp16> s = l.own();
    s.v_low = {};
    CHECK(says(refusal([&] {
                   l.opt.step(l.machine.on, l.map, s, rig::by_unit<const fp16>(l.map, g.data()), 1,
                              1e-3);
               }),
               "second moments in bf16; allocate"));
    CHECK(says(refusal([&] { l.step(g, NAN, 1e-3); }), "adamw_bf16: factor nan"));
    CHECK(l.state() == before);
}
