// SPDX-License-Identifier: MIT
#include "mpt/train/grad_accum.hpp"

#include "mpt/nn/cross_entropy.hpp"
#include "mpt/train/loss_scale.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

constexpr int V = 7; // classes

// A model of one bias a class: logits of every token are w, the loss is cross-entropy.
// Adds up the losses, and the gradient of seed * (sum of losses) over the micro-batches.
struct window_result {
    double loss = 0; // mean over the window's tokens
    std::vector<float> gradient;
};

long tokens_of(const std::vector<std::vector<int>>& window) {
    long n = 0;
    for (const auto& micro : window)
        n += std::count_if(micro.begin(), micro.end(), [](int t) { return t >= 0; });
    return n;
}

// seed_of(micro-batch): right is the same seed for all, S / tokens of the window.
template <class T, class Seed>
window_result run(const std::vector<std::vector<int>>& window, float S, Seed seed_of) {
    rig::machine m;
    const std::vector<T> w = rig::numbers<T>(1, V, 1);
    window_result r;
    r.gradient.assign(V, std::numeric_limits<float>::quiet_NaN()); // as an allocation leaves it
    double sum = 0;
    for (std::size_t micro = 0; micro < window.size(); ++micro) {
        const std::vector<int>& targets = window[micro];
        const int rows = int(targets.size());
        std::vector<T> logits(targets.size() * V), grads(V);
        for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = w[i % V];
        std::vector<wide_t<T>> losses(targets.size()), lse(targets.size());
        cross_entropy_forward<T>(m.on, rig::span(losses), rig::span(lse), rig::span(logits),
                                 rig::view(targets), rows, V);
        for (const auto l : losses) sum += double(l);
        cross_entropy_backward<T>(m.on, rig::span(logits), rig::span(logits), rig::span(lse),
                                  rig::view(targets), seed_of(micro), rows, V);
        for (int v = 0; v < V; ++v) {
            wide_t<T> total = 0;
            for (int row = 0; row < rows; ++row) total += widen(logits[std::size_t(row * V + v)]);
            grads[std::size_t(v)] = narrow<T>(total);
        }
        accumulate<T>(m.on, rig::span(r.gradient), rig::span(grads), micro == 0);
    }
    r.loss = sum / double(tokens_of(window));
    for (float& g : r.gradient) g /= S;
    return r;
}

template <class T>
window_result run(const std::vector<std::vector<int>>& window, float S = 1) {
    loss_scale scale = loss_scale::fixed(S);
    const float seed = scale.seed(tokens_of(window));
    return run<T>(window, S, [seed](std::size_t) { return seed; });
}

double difference(const window_result& a, const window_result& b) { // relative, largest element
    double most = 0, size = 0;
    for (int v = 0; v < V; ++v) {
        most = std::max(most, std::abs(double(a.gradient[v]) - double(b.gradient[v])));
        size = std::max(size, std::abs(double(b.gradient[v])));
    }
    return most / size;
}

const std::vector<int> all{0, 3, 2, 6, 6, 1, -100, 4, 0, 2, 5, 3, 3, -100, 1, 6, 2, 2, 0, 5, 4};

std::vector<std::vector<int>> split(const std::vector<std::size_t>& sizes) {
    std::vector<std::vector<int>> window;
    auto at = all.begin();
    for (const std::size_t n : sizes) {
        window.emplace_back(at, at + long(n));
        at += long(n);
    }
    return window;
}

} // namespace

TEST_CASE_TEMPLATE("the first micro-batch replaces, the others add, in fp32", T, float, fp16, bf16,
                   double) {
    for (const std::size_t n : {0, 1, 33, 1024, 1025, 40001}) {
        rig::machine m;
        std::vector<float> sum(n, std::numeric_limits<float>::quiet_NaN()), want(n);
        for (const std::uint32_t micro : {0u, 1u, 2u}) {
            const std::vector<T> g = rig::numbers<T>(micro, n, 1);
            accumulate<T>(m.on, rig::span(sum), rig::view(g), micro == 0);
            for (std::size_t i = 0; i < n; ++i)
                want[i] = float(wide_t<T>(micro == 0 ? 0 : want[i]) + widen(g[i]));
        }
        CHECK(rig::same_bits(sum, want));
    }
}

TEST_CASE("4096 ones make 4096, which 16 bits cannot count to") {
    rig::machine m;
    std::vector<float> sum(1);
    const std::vector<bf16> one{bf16(1.0f)};
    bf16 b{};
    fp16 h{};
    for (int i = 0; i < 4096; ++i) {
        accumulate<bf16>(m.on, rig::span(sum), rig::view(one), i == 0);
        b = bf16(float(b) + 1.0f);
        h = fp16(float(h) + 1.0f);
    }
    CHECK(sum[0] == 4096);
    CHECK(float(b) == 256);  // sabotage: the same sum kept in bf16
    CHECK(float(h) == 2048); // ... and in fp16
}

TEST_CASE("gradients of 2048 from 64 ranks: infinite as a sum in fp16, 2048 as a mean in fp32") {
    rig::machine m;
    std::vector<float> sum(1);
    const std::vector<fp16> g{fp16(2048.0f)};
    fp16 plain(0.0f), divided(0.0f);
    for (int rank = 0; rank < 64; ++rank) {
        accumulate<fp16>(m.on, rig::span(sum), rig::view(g), rank == 0);
        plain = fp16(float(plain) + float(g[0]));
        divided = fp16(float(divided) + float(g[0]) / 8);
    }
    CHECK(sum[0] == 131072);
    CHECK(sum[0] / 64 == 2048);
    CHECK(std::isinf(float(plain)));        // sabotage: the sum of an all-reduce in fp16
    CHECK(float(divided) / 8 == 2048);      // / 8 before and / 8 after: in range all the way
    CHECK(float(fp16(float(g[0]) / 64)) == 32); // / 64 before would push small ones into underflow:
    CHECK(float(fp16(0x1p-19f / 64)) == 0);
    CHECK(float(fp16(0x1p-19f / 8)) == 0x1p-22f);
}

TEST_CASE("any split of a batch into micro-batches has the gradient of the whole") {
    const window_result whole = run<double>(split({21}));
    using sizes_of_parts = std::vector<std::size_t>;
    for (const auto& sizes : {sizes_of_parts{7, 7, 7}, {1, 20}, {6, 1, 14}, {3, 4, 5, 9}}) {
        const window_result r = run<float>(split(sizes));
        CHECK(r.loss == doctest::Approx(whole.loss).epsilon(1e-6));
        CHECK(difference(r, whole) < 1e-6);
        CHECK(difference(run<float>(split(sizes), 65536), whole) < 1e-6);
        CHECK(difference(run<fp16>(split(sizes), 1024), run<fp16>(split({21}), 1024)) < 4e-3);
    }
}

TEST_CASE("sabotage: a lost micro-batch, and a mean of means, are outside of that bound") {
    const window_result whole = run<double>(split({21}));
    CHECK(difference(run<float>({split({6, 7, 8})[0], split({6, 7, 8})[2]}), whole) > 1e-3);
    const auto window = split({3, 4, 5, 9});
    const window_result means = run<float>(window, 1, [&](std::size_t micro) {
        return 1 / (float(window.size()) * float(tokens_of({window[micro]})));
    });
    CHECK(difference(means, whole) > 1e-3);
}

TEST_CASE("losses 10 over 10 tokens and 6 over 2 have the mean 16/12, not 2") {
    // a gradient of 1 a token and unit of loss: what the seed does to the losses it does to these
    const float seed = loss_scale::fixed(1).seed(10 + 2);
    rig::machine m;
    std::vector<float> sum(1);
    const std::vector<float> first{10 * seed}, second{6 * seed};
    accumulate<float>(m.on, rig::span(sum), rig::view(first), true);
    accumulate<float>(m.on, rig::span(sum), rig::view(second), false);
    CHECK(sum[0] == doctest::Approx(16.0 / 12).epsilon(1e-6));
    CHECK((10.0 / 10 + 6.0 / 2) / 2 == 2.0); // sabotage: the mean of means
}

TEST_CASE("a window of 3 micro-batches where 4 are usual counts its own tokens") {
    // each micro-batch: 5 tokens of loss 1
    rig::machine m;
    const auto total = [&](float seed) {
        std::vector<float> sum(1);
        const std::vector<float> micro{5 * seed};
        for (int i = 0; i < 3; ++i)
            accumulate<float>(m.on, rig::span(sum), rig::view(micro), i == 0);
        return sum[0];
    };
    CHECK(total(loss_scale::fixed(1).seed(3 * 5)) == doctest::Approx(1.0).epsilon(1e-6));
    // sabotage: the usual count
    CHECK(total(loss_scale::fixed(1).seed(4 * 5)) == doctest::Approx(0.75).epsilon(1e-6));
}

TEST_CASE("a micro-batch without a target adds nothing, and no NaN") {
    const window_result r = run<float>({{-100, -100}, {1, 2, 3, 4}});
    const window_result alone = run<float>({{1, 2, 3, 4}});
    CHECK(rig::same_bits(r.gradient, alone.gradient));
    CHECK(r.loss == alone.loss);
    CHECK(std::isfinite(r.loss));
    // sabotage: its own mean is 0/0
    const float own_mean = 0.0f / float(tokens_of({{-100, -100}}));
    CHECK(std::isnan(own_mean));
    CHECK(says(refusal([] { run<float>({{-100, -100}}); }), "0 target tokens"));
}

TEST_CASE("the same bits for any number of threads") {
    const std::vector<fp16> g = rig::numbers<fp16>(2, 100003, 1);
    std::vector<float> one = rig::numbers<float>(3, g.size(), 1), many = one;
    rig::machine single(1), several(3);
    accumulate<fp16>(single.on, rig::span(one), rig::view(g), false);
    accumulate<fp16>(several.on, rig::span(many), rig::view(g), false);
    CHECK(rig::same_bits(one, many));
}

TEST_CASE("sizes that disagree are refused") {
    rig::machine m;
    std::vector<float> sum(3);
    const std::vector<fp16> g(4);
    CHECK(says(refusal([&] { accumulate<fp16>(m.on, rig::span(sum), rig::view(g), true); }),
               "a sum of 3 elements and 4 gradients"));
}
