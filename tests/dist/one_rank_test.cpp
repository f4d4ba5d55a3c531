// SPDX-License-Identifier: MIT
#include "mpt/dist/one_rank.hpp"

#include "../train/rig.hpp"
#include "hiding_rank.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/nn/matmul.hpp"
#include "mpt/nn/mlp.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

layout three_units() {
    layout map;
    map.add_unit("first");
    map.add("a", {4, 2}, 1);
    map.add("b", {3}, 0);
    map.add_unit("middle");
    map.add("c", {1}, 0);
    map.add_unit("last");
    map.add("d", {20000, 1}, 1);
    return map;
}

template <class T>
struct outcome {
    double loss = 0;
    std::vector<T> micro;
    std::vector<float> sum;
};

// A model with its weights, which computes micro-batch k of a window through any strategy.
template <class T>
struct mlp_run {
    using scalar = T;
    mlp_run()
        : pool(2), ops(pool, mem, matmul_scratch<T>() * sizeof(wide_t<T>)), model({5, 7, 3}, ops),
          acts(mem, model.widths, 4), weights(rig::numbers<T>(1, model.map.size(), 1)) {}

    double micro(strategy<T>& s, device_span<const T> given, int k, gradients<T>& grads) {
        const std::vector<T> x = rig::numbers<T>(std::uint32_t(10 + k), 20, 1);
        const std::vector<int> targets{k, 2, 1, 0};
        std::copy(x.begin(), x.end(), acts.x[0].span().data());
        const double loss = model.forward(s, given, rig::view(targets), acts);
        model.backward(s, given, rig::view(targets), acts, 0.25f, grads, k);
        return loss;
    }

    thread_pool pool;
    memory mem;
    loops ops;
    mlp<T, loops> model;
    mlp_acts<T> acts;
    std::vector<T> weights;
};

inline gpt_config small() {
    gpt_config c;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.channels = 12;
    c.context = 6;
    c.vocabulary = 11;
    c.dropout = 0.25f;
    return c;
}

template <class T>
struct gpt_run {
    using scalar = T;
    gpt_run()
        : pool(2), ops(pool, mem, gpt_scratch<T>(small(), 2, 6)), model(small(), ops, 7),
          acts(mem, small(), 2, 6), weights(rig::numbers<T>(1, model.map.size(), 1)) {}

    double micro(strategy<T>& s, device_span<const T> given, int k, gradients<T>& grads) {
        const std::vector<int> in{0, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, k},
            out{3, 1, 4, 1, 5, 9, 2, ignored_target, 5, 3, k, 8};
        const batch b{rig::view(in), rig::view(out), 2, 6, k, 5, 2 * k};
        const double loss = model.forward(s, given, b, acts);
        model.backward(s, given, b, acts, 0.25f, grads);
        return loss;
    }

    thread_pool pool;
    memory mem;
    loops ops;
    gpt<T, loops> model;
    gpt_acts<T> acts;
    std::vector<T> weights;
};

template <class Run, class T>
outcome<T> window(Run& run, strategy<T>& s, device_span<const std::type_identity_t<T>> given,
                  int micros) {
    outcome<T> r;
    r.micro.resize(run.model.map.size());
    if (micros > 1) r.sum.assign(r.micro.size(), std::numeric_limits<float>::quiet_NaN());
    gradients<T> grads{rig::span(r.micro), rig::span(r.sum)};
    for (int k = 0; k < micros; ++k) r.loss += run.micro(s, given, k, grads);
    s.finish(grads);
    return r;
}

template <class T>
bool same(const outcome<T>& a, const outcome<T>& b) {
    return a.loss == b.loss && rig::same_bits(a.micro, b.micro) && rig::same_bits(a.sum, b.sum);
}

} // namespace

TEST_CASE("a unit's weights are its part of the flat buffer, and all pieces are mine") {
    const layout map = three_units();
    rig::machine m;
    std::vector<float> weights(map.size());
    one_rank<float> s(m.on, map);
    for (int u = 0; u < 3; ++u) {
        const device_span<const float> w = s.acquire(rig::view(weights), u);
        CHECK(w.data() == weights.data() + map.units[std::size_t(u)].begin);
        CHECK(w.size() == map.units[std::size_t(u)].size());
        s.release(u);
    }
    const pieces<float> mine = s.mine(rig::span(weights));
    REQUIRE(mine.size() == 3);
    CHECK(size_of(mine) == map.size());
    for (std::size_t u = 0; u < 3; ++u) {
        CHECK(mine[u].begin == map.units[u].begin);
        CHECK(mine[u].data.data() == weights.data() + map.units[u].begin);
    }
    s.publish(rig::span(weights));
    CHECK(says(refusal([&] { s.acquire(rig::view(weights).first(11), 2); }), "span of 11"));
}

TEST_CASE_TEMPLATE("a window of one: the micro-batch itself; of several: their sum in fp32", T,
                   float, fp16, bf16, double) {
    const layout map = three_units();
    rig::machine m;
    one_rank<T> s(m.on, map);
    for (const int micros : {1, 2, 3}) {
        std::vector<T> micro(map.size());
        std::vector<float> sum(micros > 1 ? map.size() : 0, NAN), want(map.size());
        gradients<T> grads{rig::span(micro), rig::span(sum)};
        for (int k = 0; k < micros; ++k) {
            const std::vector<T> g = rig::numbers<T>(std::uint32_t(k), map.size(), 1);
            for (std::size_t i = 0; i < want.size(); ++i)
                want[i] = float(wide_t<T>(k ? want[i] : 0) + widen(g[i]));
            for (int u = 2; u >= 0; --u) {
                const device_span<T> to = s.collect(grads, u);
                std::copy_n(g.data() + map.units[std::size_t(u)].begin, to.size(), to.data());
                s.ready(grads, u, k);
            }
        }
        const owned_gradients<T> own = s.finish(grads);
        CHECK(own.sum.size() == (micros > 1 ? 3u : 0u));
        CHECK(own.micro.size() == (micros > 1 ? 0u : 3u));
        own.visit([&](const auto& parts) {
            CHECK(size_of(parts) == map.size());
            for (std::size_t u = 0; u < 3; ++u) CHECK(parts[u].begin == map.units[u].begin);
        });
        if (micros == 1) continue;
        CHECK(rig::same_bits(sum, want));
        s.ready(grads, 0, 1); // sabotage: one unit reported twice is counted twice
        CHECK_FALSE(rig::same_bits(sum, want));
    }
}

TEST_CASE_TEMPLATE("a model that keeps the protocol has the same bits where all else is hidden",
                   Run, mlp_run<float>, mlp_run<fp16>, mlp_run<bf16>, mlp_run<double>,
                   gpt_run<float>, gpt_run<fp16>, gpt_run<bf16>, gpt_run<double>) {
    using T = typename Run::scalar;
    Run r;
    for (const int micros : {1, 2}) {
        one_rank<T> plain(r.ops, r.model.map);
        hiding_rank<T> hiding(r.ops, r.model.map, rig::view(r.weights));
        const outcome<T> a = window(r, plain, rig::view(r.weights), micros);
        const outcome<T> b = window(r, hiding, hiding.hidden(), micros);
        CHECK(std::isfinite(a.loss));
        CHECK(same(a, b));
        CHECK(same(b, window(r, hiding, hiding.hidden(), micros))); // a second window
        r.weights[0] = narrow<T>(wide_t<T>(micros)); // sabotage: one weight changed
        CHECK_FALSE(same(a, window(r, plain, rig::view(r.weights), micros)));
    }
}

TEST_CASE("sabotage: every breach of the protocol that one rank forgives shows here") {
    mlp_run<float> r;
    const layout& map = r.model.map;
    hiding_rank<float> s(r.ops, map, rig::view(r.weights));
    std::vector<float> micro(map.size());
    gradients<float> grads{rig::span(micro), {}};

    // weights read before acquire, and after release
    CHECK(std::isnan(s.hidden().data()[3]));
    const device_span<const float> w = s.acquire(s.hidden(), 1);
    CHECK(w.data()[0] == r.weights[map.units[1].begin]);
    s.release(1);
    CHECK(std::isnan(w.data()[0]));
    // ... also when somebody acquires the unit again
    const device_span<const float> again = s.acquire(s.hidden(), 1);
    CHECK(std::isnan(w.data()[0]));
    CHECK(again.data()[0] == r.weights[map.units[1].begin]);
    // an acquire inside an acquire is one gathering
    CHECK(s.acquire(s.hidden(), 1).data() == again.data());
    s.release(1);
    CHECK_FALSE(std::isnan(again.data()[0]));
    s.release(1);
    CHECK(says(refusal([&] { s.release(1); }), "layer.1, which is not acquired"));

    // weights written
    const device_span<const float> v = s.acquire(s.hidden(), 0);
    const_cast<float*>(v.data())[2] += 1;
    CHECK(says(refusal([&] { s.release(0); }), "layer.0 were written to"));
    const_cast<float*>(v.data())[2] = r.weights[2];
    s.release(0);

    // a gradient not written, not collected, reported twice, not reported
    const device_span<float> d = s.collect(grads, 0);
    for (std::size_t i = 1; i < d.size(); ++i) d.data()[i] = 0;
    s.ready(grads, 0, 0);
    CHECK(std::isnan(micro[0]));
    CHECK(micro[1] == 0);
    CHECK(says(refusal([&] { s.ready(grads, 0, 0); }), "without collect"));
    s.collect(grads, 0);
    CHECK(says(refusal([&] { s.ready(grads, 0, 0); }), "wanted 1"));
    CHECK(says(refusal([&] { s.finish(grads); }), "was ready 1 times"));
    hiding_rank<float> t(r.ops, map, rig::view(r.weights));
    t.collect(grads, 0);
    t.ready(grads, 0, 0);
    CHECK(says(refusal([&] { t.finish(grads); }), "layer.1 was ready 0 times"));
    t.acquire(t.hidden(), 1);
    CHECK(says(refusal([&] { t.finish(grads); }), "layer.1 is still acquired"));
}
