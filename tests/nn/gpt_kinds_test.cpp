// SPDX-License-Identifier: MIT
// The GPT without layer norms, and with a learnable scale for each branch.
#include "checks.hpp"
#include "mpt/nn/autocast.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/gpt_sites.hpp"
#include "tests/dist/hiding_rank.hpp"

#include <doctest/doctest.h>

using namespace mpt;

namespace {

struct kind_of_gpt {
    bool layer_norm, residual_scale;
    float start = 0;
};
// GPT-2, GPT-2 with scales, T-Fixup's, ReZero's and one that begins elsewhere.
constexpr kind_of_gpt kinds_of_gpt[] = {
    {true, false}, {true, true, 1}, {false, false}, {false, true, 0}, {false, true, -0.6f}};

gpt_config small(kind_of_gpt kind, int layers = 2, float dropout = 0, int kv_heads = 2) {
    gpt_config c;
    c.layers = layers, c.heads = 4, c.kv_heads = kv_heads, c.channels = 12, c.context = 7;
    c.vocabulary = 19, c.dropout = dropout;
    c.layer_norm = kind.layer_norm, c.tfixup = !kind.layer_norm;
    c.residual_scale = kind.residual_scale, c.residual_start = kind.start;
    return c;
}

// A model with weights that bend everything, and a batch with ignored targets.
template <class T, class Ops = loops>
struct rig {
    explicit rig(const gpt_config& c, int threads = 2, const checkpointing& plan = {})
        : pool(threads), ops(pool, mem, gpt_scratch<T>(c, 3, c.context)), model(c, ops, 7),
          weights(model.map.size()), grads(model.map.size()),
          strategy(ops, model.map, checks::span(weights)), acts(mem, c, 3, c.context, plan) {
        std::vector<float> values(weights.size());
        initial_values(model.map, 3, 0, values);
        for (std::size_t i = 0; i < values.size(); ++i)
            weights[i] = narrow<T>(wide_t<T>(2 * values[i] + 0.05 * std::sin(double(i))));
        inputs = checks::tokens(acts.n(), 1, c.vocabulary);
        targets = checks::tokens(acts.n(), 2, c.vocabulary);
        for (std::size_t i = 2; i < acts.n(); i += 5) targets[i] = ignored_target;
    }
    batch window() const {
        return {checks::span(inputs), checks::span(targets), 3, acts.T_, 0, 5, 2};
    }
    double loss() { return model.forward(strategy, strategy.hidden(), window(), acts); }
    double gradient() {
        gradients<T> g{checks::span(grads), {}};
        const double value = loss();
        model.backward(strategy, strategy.hidden(), window(), acts, 1, g);
        strategy.finish(g);
        return value;
    }
    memory mem;
    thread_pool pool;
    Ops ops;
    gpt<T, Ops> model;
    std::vector<T> weights, grads;
    hiding_rank<T> strategy; // weights that are not acquired are NaN
    gpt_acts<T> acts;
    std::vector<int> inputs, targets;
};

struct adds_no_branch : loops {
    using loops::loops;
    template <class T>
    void add(device_span<T>, device_view<T>, device_view<T>) const {}
};

// gpt_test.cpp says why a model has a hundred times the truncation of checks.hpp's losses.
constexpr double tolerance = 100 * checks::gradient_tolerance / 10;

} // namespace

TEST_CASE("every gradient equals a finite difference, in fp64") {
    for (const kind_of_gpt kind : kinds_of_gpt)
        for (const float dropout : {0.0f, 0.25f}) {
            rig<double> r(small(kind, 2, dropout, dropout > 0 ? 1 : 4));
            r.gradient();
            const std::vector<double> g = r.grads;
            CHECK(checks::gradient_error(
                      r.weights, g, [&] { return r.loss(); }, 120) < tolerance);
            for (const gpt_block_tensors& b : r.model.tensors.block)
                for (const int scale : {b.scale_1, b.scale_2}) { // none of them is left out
                    if (scale < 0) continue;
                    const std::size_t at = r.model.map.tensors[std::size_t(scale)].begin;
                    const double before = r.weights[at], h = 1e-5;
                    r.weights[at] = before + h;
                    const double up = r.loss();
                    r.weights[at] = before - h;
                    CHECK(std::fabs((up - r.loss()) / (2 * h) - g[at]) <
                          tolerance * std::max(1.0, std::fabs(g[at])));
                    r.weights[at] = before;
                }
        }
}

TEST_CASE("sabotage: a backward that forgets the scale, or adds no branch, is caught") {
    struct unscaled : loops {
        using loops::loops;
        void scaled_residual_backward(device_span<double> dbranch, device_span<double> dalpha,
                                      device_view<double> dout, device_view<double> branch,
                                      device_view<double>, float p, dropout_key key,
                                      dropout_shape s) const {
            const std::vector<double> one = {1};
            loops::scaled_residual_backward<double>(dbranch, dalpha, dout, branch,
                                                    checks::span(one), p, key, s);
        }
    };
    const auto off = [](auto& r) {
        r.gradient();
        const std::vector<double> g = r.grads;
        return checks::gradient_error(r.weights, g, [&] { return r.loss(); });
    };
    rig<double, unscaled> scaled(small(kinds_of_gpt[4]));
    CHECK(off(scaled) > 1e3 * tolerance);
    rig<double, adds_no_branch> plain(small(kinds_of_gpt[2]));
    CHECK(off(plain) > 1e3 * tolerance);
}

TEST_CASE("parameters and kept bytes equal the formulas of the cards") {
    for (const kind_of_gpt kind : kinds_of_gpt) {
        const gpt_config c = small(kind, 3);
        rig<fp16> r(c);
        const std::size_t C = 12, Q = std::size_t(c.qkv()), V = 19, L = 3, T = 7, H = 4;
        const std::size_t n = kind.layer_norm, a = kind.residual_scale;
        CHECK(r.model.map.size() ==
              V * C + T * C + 2 * n * C + L * (Q * C + Q + 9 * C * C + (6 + 4 * n) * C + 2 * a));
        CHECK(r.mem.books.now(mpt::kind::activations) ==
              3 * T *
                  (2 * ((1 + n) * C + V + L * ((11 + 2 * n + 2 * a) * C + Q)) +
                   4 * (2 + 2 * n + L * (4 * n + H))));
        for (const tensor_info& t : r.model.map.tensors) {
            CHECK((t.name.find("ln_") == std::string::npos || n == 1));
            const bool scale = t.name.find("scale_") != std::string::npos;
            CHECK(scale == (a == 1 && t.size == 1));
            CHECK((!scale || (!t.decays && t.constant == kind.start)));
        }
    }
}

TEST_CASE("from 0 on the model is the identity, and the scales learn first") {
    rig<float> r(small(kinds_of_gpt[3], 3));
    initial_values(r.model.map, 3, 0, r.weights);
    r.gradient();
    const auto last = r.acts.block.back().out;
    CHECK(std::equal(last.data(), last.data() + last.size(), r.acts.embedded.data()));
    for (std::size_t l = 0; l < 3; ++l) {
        const gpt_block_tensors& b = r.model.tensors.block[l];
        const auto largest = [&](int tensor) {
            const tensor_info& t = r.model.map.tensors[std::size_t(tensor)];
            float most = 0;
            for (std::size_t i = 0; i < t.size; ++i)
                most = std::max(most, std::fabs(r.grads[t.begin + i]));
            return most;
        };
        CHECK(largest(b.scale_1) > 0);
        CHECK(largest(b.scale_2) > 0);
        CHECK(largest(b.fc_weight) == 0); // alpha stands before the branch
        CHECK(largest(b.qkv_weight) == 0);
    }
}

TEST_CASE("scales of 1 are GPT-2 bit for bit, and the other gradients, too") {
    rig<bf16> plain(small(kinds_of_gpt[0])), scaled(small(kinds_of_gpt[1]));
    const auto copy = [&](auto& from, auto& to, bool weights) { // tensors of the same names
        bool same = true;
        for (const tensor_info& t : from.model.map.tensors)
            for (const tensor_info& u : to.model.map.tensors)
                for (std::size_t i = 0; u.name == t.name && i < t.size; ++i)
                    if (weights)
                        to.weights[u.begin + i] = from.weights[t.begin + i];
                    else
                        same =
                            same && checks::same_bits(std::vector<bf16>{to.grads[u.begin + i]},
                                                      std::vector<bf16>{from.grads[t.begin + i]});
        return same;
    };
    copy(plain, scaled, true);
    for (const gpt_block_tensors& b : scaled.model.tensors.block)
        for (const int t : {b.scale_1, b.scale_2})
            scaled.weights[scaled.model.map.tensors[std::size_t(t)].begin] = bf16(1.0f);
    CHECK(scaled.gradient() == plain.gradient());
    CHECK(copy(plain, scaled, false));
    plain.targets[0] = (plain.targets[0] + 1) % 19; // the sabotage: another batch
    plain.gradient();
    CHECK(!copy(plain, scaled, false));
}

TEST_CASE("checkpointed blocks: the same bits, on 1, 2 and 3 threads") {
    for (const kind_of_gpt kind : kinds_of_gpt)
        for (const float dropout : {0.0f, 0.25f}) {
            const gpt_config c = small(kind, 5, dropout);
            rig<fp16> kept(c, 1);
            kept.gradient();
            int threads = 1;
            for (const char* plan : {"every:1", "every:2", "every:3", "blocks:0,3"}) {
                rig<fp16> again(c, threads, checkpointing::parse(plan, 5));
                threads = threads % 3 + 1;
                again.gradient();
                CHECK(checks::same_bits(again.grads, kept.grads));
            }
        }
}

TEST_CASE("under autocast's policies scales are a weight of their residual sum") {
    for (const float dropout : {0.0f, 0.25f})
        for (const char* plan : {"none", "every:2"}) {
            const gpt_config c = small(kinds_of_gpt[1], 5, dropout);
            const auto cast = [&](const char* policy) {
                rig<float, autocast<fp16>> r(c, 2, checkpointing::parse(plan, 5));
                r.ops.use(precision_policy::parse(policy), gpt_sites(c), r.model.map,
                          gpt_autocast_room<fp16>(c, 3, c.context));
                r.gradient();
                return r.grads;
            };
            rig<fp16> low(c);
            // The cast weights are these: fp16's rounding of the same values.
            low.gradient();
            CHECK(checks::doubles(cast("all-low")) == checks::doubles(low.grads));
            rig<float> wide(c);
            wide.gradient();
            CHECK(checks::same_bits(cast("all-fp32"), wide.grads));
            const auto mixed = cast("autocast");
            CHECK(!checks::same_bits(mixed, wide.grads));
            for (const float g : mixed) CHECK(std::isfinite(g));
        }
    CHECK(gpt_sites(small(kinds_of_gpt[1])).size() == gpt_sites(small(kinds_of_gpt[0])).size());
}

TEST_CASE("what does not fit is refused by name") {
    CHECK_THROWS_WITH_AS(gpt_sites(small(kinds_of_gpt[2])),
                         doctest::Contains("a model without layer norms has no list"), error);
    gpt_tensors t;
    CHECK_THROWS_WITH_AS(gpt_layout(small({true, true, INFINITY}), t),
                         doctest::Contains("residual scales begin with inf"), error);
    check_gpt2(small(kinds_of_gpt[0]), "gpt2.bin");
    CHECK_THROWS_WITH_AS(check_gpt2(small(kinds_of_gpt[1]), "gpt2.bin"),
                         "weights gpt2.bin: the model has residual scales; no GPT-2 can hold it",
                         error);
    CHECK_THROWS_WITH_AS(check_gpt2(small(kinds_of_gpt[3]), "gpt2.bin"),
                         doctest::Contains("the model has no layer norms"), error);
}
