// SPDX-License-Identifier: MIT
#include "mpt/nn/mlp.hpp"
#include "checks.hpp"
#include "mpt/nn/loops.hpp"
#include "tests/dist/hiding_rank.hpp"

#include <doctest/doctest.h>

using namespace mpt;

namespace {
struct fixture {
    explicit fixture(std::vector<int> widths, int rows)
        : pool(2), ops(pool, mem, std::size_t(16) << 20), model(widths, ops),
          weights(model.map.size()), grads(model.map.size()),
          strategy(ops, model.map, checks::span(weights)), acts(mem, widths, rows) {
        std::vector<float> values(weights.size());
        initial_values(model.map, 3, 0, values);
        for (std::size_t i = 0; i < values.size(); ++i)
            weights[i] = values[i] + 0.1 * std::sin(double(i));
        features = checks::numbers(acts.x[0].size(), 4);
        targets = checks::tokens(std::size_t(rows), 2, widths.back());
        if (rows > 2) targets[1] = ignored_target;
    }
    double loss() {
        std::copy(features.begin(), features.end(), acts.x[0].span().data());
        return model.forward(strategy, strategy.hidden(), checks::span(targets), acts);
    }
    void gradient() {
        loss();
        gradients<double> g{checks::span(grads), {}};
        model.backward(strategy, strategy.hidden(), checks::span(targets), acts, 1, g);
        strategy.finish(g);
    }
    memory mem;
    thread_pool pool;
    loops ops;
    mlp<double, loops> model;
    std::vector<double> weights, grads, features;
    hiding_rank<double> strategy; // weights that are not acquired are NaN
    mlp_acts<double> acts;
    std::vector<int> targets;
};
} // namespace

TEST_CASE("every gradient equals a finite difference, in fp64") {
    for (const std::vector<int>& widths :
         {std::vector<int>{3, 2}, {1, 1, 2}, {7, 13, 5}, {4, 8, 8, 3}}) {
        fixture f(widths, 7);
        f.gradient();
        const std::vector<double> computed = f.grads;
        CHECK(checks::gradient_error(f.weights, computed, [&] { return f.loss(); }) <
              checks::gradient_tolerance);
        // sabotage: the same check sees a gradient that is off by a factor
        std::vector<double> wrong = computed;
        for (double& x : wrong) x *= 1.001;
        CHECK(checks::gradient_error(f.weights, wrong, [&] { return f.loss(); }) >
              10 * checks::gradient_tolerance);
    }
}

TEST_CASE("parameters and kept bytes equal the formula of the card") {
    fixture f({7, 13, 11, 5}, 6);
    CHECK(f.model.map.size() == 7 * 13 + 13 + 13 * 11 + 11 + 11 * 5 + 5);
    CHECK(f.mem.books.now(kind::activations) == 6 * 8 * (2 * (13 + 11) + 5 + 7 + 2));
    CHECK(f.mem.books.now(kind::weights) == 0); // they are the caller's
}

TEST_CASE("widths that make no network are refused") {
    memory mem;
    thread_pool pool(1);
    loops ops(pool, mem, 64);
    using model = mlp<float, loops>;
    CHECK_THROWS_WITH_AS(model({5}, ops), doctest::Contains("1 widths"), error);
    CHECK_THROWS_WITH_AS(model({5, 0}, ops), doctest::Contains("layer 0 of 5 to 0"), error);
}
