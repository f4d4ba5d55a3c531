// SPDX-License-Identifier: MIT
#include "mpt/nn/gpt.hpp"
#include "checks.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "tests/dist/hiding_rank.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using checks::gradient_error;

namespace {

// checks.hpp bounds a difference's truncation for numbers of size 1. Embeddings here are of 0.1,
// and layer norm's third derivative over its first goes with 1 / size^2: 100 times as much.
constexpr double gradient_tolerance = 100 * checks::gradient_tolerance / 10;

// A model with weights that are large enough to bend everything, and a batch with ignored targets.
template <class T, class Ops = loops>
struct fixture {
    explicit fixture(const gpt_config& config, int B = 2, int T_ = 0, int threads = 2)
        : pool(threads), ops(pool, mem, gpt_scratch<T>(config, B, config.context)),
          model(config, ops, 7), weights(model.map.size()), grads(model.map.size()),
          strategy(ops, model.map, checks::span(weights)),
          acts(mem, config, B, T_ ? T_ : config.context) {
        std::vector<float> values(weights.size());
        initial_values(model.map, 3, 0, values);
        for (std::size_t i = 0; i < values.size(); ++i)
            weights[i] = narrow<T>(wide_t<T>(values[i] * 5 + 0.05 * std::sin(double(i))));
        const std::size_t n = acts.n();
        inputs = checks::tokens(n, 1, config.vocabulary);
        targets = checks::tokens(n, 2, config.vocabulary);
        for (std::size_t i = 2; i < n; i += 5) targets[i] = ignored_target;
    }
    batch window(int micro = 0) const {
        return {checks::span(inputs), checks::span(targets), acts.B, acts.T_, micro, 5, 2};
    }
    double loss() { return model.forward(strategy, strategy.hidden(), window(), acts); }
    double gradient(float seed = 1) {
        gradients<T> g{checks::span(grads), {}};
        const double value = loss();
        model.backward(strategy, strategy.hidden(), window(), acts, seed, g);
        order = strategy.order();
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
    std::vector<int> inputs, targets, order;
};

gpt_config small(int layers, int heads, int kv_heads, int channels, int context, int vocabulary,
                 float dropout = 0) {
    gpt_config c;
    c.layers = layers;
    c.heads = heads;
    c.kv_heads = kv_heads;
    c.channels = channels;
    c.context = context;
    c.vocabulary = vocabulary;
    c.dropout = dropout;
    return c;
}

} // namespace

TEST_CASE("every gradient of the model equals a finite difference, in fp64") {
    for (const gpt_config& c : {small(1, 1, 1, 5, 1, 3), small(2, 4, 4, 12, 7, 11),
                                small(2, 4, 2, 16, 13, 19, 0.25f), small(1, 3, 1, 9, 5, 7, 0.5f)}) {
        fixture<double> f(c);
        f.gradient();
        const std::vector<double> g = f.grads;
        CHECK(gradient_error(
                  f.weights, g, [&] { return f.loss(); }, 500) < gradient_tolerance);
    }
}

TEST_CASE("sabotage: a backward that forgets one term is caught") {
    struct forgets : loops { // the embedding's share of the tied table
        using loops::loops;
        void embedding_backward(device_span<double>, device_span<double> dwpe,
                                device_view<double> dy, device_span<const int> tokens,
                                embedding_shape s) const {
            std::vector<double> thrown_away(std::size_t(s.V) * std::size_t(s.C));
            loops::embedding_backward<double>(checks::span(thrown_away), dwpe, dy, tokens, s);
        }
    };
    fixture<double, forgets> f(small(1, 2, 2, 8, 6, 11));
    f.gradient();
    const std::vector<double> g = f.grads;
    CHECK(gradient_error(f.weights, g, [&] { return f.loss(); }) > 1e3 * gradient_tolerance);
}

TEST_CASE("the loss at the start is about ln V") {
    fixture<float> f(small(2, 2, 2, 16, 12, 256));
    std::vector<float> values(f.weights.size());
    initial_values(f.model.map, 3, 0, values);
    f.weights = values;
    const auto counted =
        std::count_if(f.targets.begin(), f.targets.end(), [](int t) { return t >= 0; });
    CHECK(std::fabs(f.loss() / double(counted) - std::log(256.0)) < 0.1);
}

TEST_CASE("parameters and kept bytes equal the formula of the card") {
    for (const gpt_config& c : {small(2, 4, 4, 12, 7, 11), small(3, 6, 2, 24, 5, 31)}) {
        const std::size_t V = std::size_t(c.vocabulary), C = std::size_t(c.channels);
        const std::size_t Q = std::size_t(c.qkv()), L = std::size_t(c.layers);
        fixture<fp16> f(c, 3);
        CHECK(f.model.map.size() ==
              V * C + std::size_t(c.context) * C + 2 * C + L * (Q * C + Q + 9 * C * C + 10 * C));
        const std::size_t n = 3 * std::size_t(c.context);
        CHECK(f.mem.books.now(kind::activations) ==
              n * (2 * (2 * C + V + L * (13 * C + Q)) + 4 * (4 + L * (4 + std::size_t(c.heads)))));
        const std::size_t scratch = 2 * ((gpt_scratch<fp16>(c, 3, c.context) + 63) / 64 * 64);
        CHECK(f.mem.books.now(kind::temp) == n * 2 * 6 * C + scratch);
    }
}

TEST_CASE("GPT-2 124M has the size that everybody knows") {
    gpt_tensors t;
    gpt_config c = small(12, 12, 12, 768, 1024, 50257);
    CHECK(gpt_layout(c, t).size() == 124439808);
}

TEST_CASE("weights are used only between acquire and release, and every unit reports once") {
    fixture<float> f(small(2, 2, 1, 8, 6, 11, 0.1f));
    const double loss = f.gradient(); // hiding_rank poisons what is released, and finish() throws
    CHECK(std::isfinite(loss));
    for (const float g : f.grads) CHECK(std::isfinite(g)); // nothing was left unwritten (poison)
    CHECK(f.order == std::vector<int>{2, 1, 0}); // the tied embedding last
}

TEST_CASE("all targets ignored: loss 0, gradients exactly 0") {
    fixture<bf16> f(small(1, 2, 2, 8, 6, 11));
    std::fill(f.targets.begin(), f.targets.end(), ignored_target);
    CHECK(f.gradient() == 0);
    for (const bf16 g : f.grads) CHECK(widen(g) == 0);
}

TEST_CASE("a token sees none that follow it") {
    fixture<float> f(small(2, 2, 1, 8, 9, 11), 1);
    f.loss();
    const std::vector<float> before(f.acts.logits.data(),
                                    f.acts.logits.data() + f.acts.logits.size());
    f.inputs[5] = (f.inputs[5] + 1) % 11;
    f.loss();
    const float* after = f.acts.logits.data();
    CHECK(std::equal(before.begin(), before.begin() + 5 * 11, after));
    CHECK(!std::equal(before.begin() + 5 * 11, before.end(), after + 5 * 11));
}

TEST_CASE("the same bits on 1, 2 and 3 threads, in every format") {
    const auto bits = [](auto scalar) {
        using T = decltype(scalar);
        std::vector<T> first;
        for (const int threads : {1, 2, 3}) {
            fixture<T> f(small(2, 4, 2, 32, 70, 300, 0.1f), 3, 0, threads);
            f.gradient(64.0f / 100);
            if (threads == 1) first = f.grads;
            CHECK(checks::same_bits(f.grads, first));
        }
    };
    bits(float());
    bits(fp16());
    bits(bf16());
}

TEST_CASE("fp16 and bf16 gradients point where fp64's do") {
    // Each of the some 20 roundings on a gradient's way is relative 2^-11 (fp16) or 2^-8 (bf16);
    // were all of one sign they would add to 20 u. The direction is held to that.
    const gpt_config c = small(2, 4, 2, 32, 24, 64);
    fixture<double> exact(c);
    fixture<fp16> half(c);
    fixture<bf16> brain(c);
    for (std::size_t i = 0; i < exact.weights.size(); ++i) { // the same weights, exact in both
        brain.weights[i] = bf16(float(exact.weights[i]));
        exact.weights[i] = double(widen(brain.weights[i]));
        half.weights[i] = fp16(float(exact.weights[i]));
    }
    exact.gradient();
    half.gradient();
    brain.gradient();
    const auto off = [&](const std::vector<double>& g) {
        double square = 0;
        for (std::size_t i = 0; i < g.size(); ++i) square += std::pow(g[i] - exact.grads[i], 2);
        return std::sqrt(square / checks::dot(exact.grads, exact.grads));
    };
    CHECK(off(checks::doubles(half.grads)) < 20 * 0x1p-11);
    CHECK(off(checks::doubles(brain.grads)) < 20 * 0x1p-8);
    CHECK(off(checks::doubles(brain.grads)) > 0x1p-11); // and the measure tells them apart
}

TEST_CASE("sizes that do not fit each other are refused by name") {
    gpt_tensors t;
    CHECK_THROWS_WITH_AS(gpt_layout(small(1, 3, 3, 16, 8, 9), t),
                         doctest::Contains("16 channels do not divide by 3 heads"), error);
    CHECK_THROWS_WITH_AS(gpt_layout(small(1, 4, 3, 16, 8, 9), t),
                         doctest::Contains("4 heads do not divide by 3 key/value heads"), error);
    CHECK_THROWS_AS(gpt_layout(small(0, 4, 4, 16, 8, 9), t), error);
    CHECK_THROWS_AS(gpt_layout(small(1, 4, 4, 16, 8, 9, 1.0f), t), error);
    fixture<float> f(small(1, 2, 2, 8, 6, 11), 2);
    batch b = f.window();
    b.B = 1;
    CHECK_THROWS_WITH_AS(f.model.forward(f.strategy, f.strategy.hidden(), b, f.acts),
                         doctest::Contains("a batch of (1,6)"), error);
}
