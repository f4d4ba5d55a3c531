// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/cross_entropy.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace mpt;
using namespace checks;

namespace {

template <class T>
struct layer {
    int rows, V;
    std::vector<T> logits, dlogits;
    std::vector<int> targets;
    std::vector<wide_t<T>> losses, lse;
    layer(int rows, int V)
        : rows(rows), V(V), logits(numbers<T>(std::size_t(rows) * std::size_t(V), 1, 2)),
          dlogits(logits.size()), targets(tokens(std::size_t(rows), 2, V)),
          losses(std::size_t(rows)), lse(std::size_t(rows)) {
        for (int r = 2; r < rows; r += 5) targets[std::size_t(r)] = r % 2 ? ignored_target : -1;
    }
    void forward(machine& m) {
        cross_entropy_forward<T>(m.on, span(losses), span(lse), span(logits), span(targets), rows,
                                 V);
    }
    void backward(machine& m, wide_t<T> seed) {
        cross_entropy_backward<T>(m.on, span(dlogits), span(logits), span(lse), span(targets), seed,
                                  rows, V);
    }
};

constexpr int shapes[][2] = {{1, 1}, {1, 2}, {3, 7}, {7, 31}, {2, 1024}, {3, 1025}, {1, 5003}};

// The definition in double: loss, and the gradient of seed * loss, of row r.
template <class T>
double definition(const layer<T>& l, std::size_t r, double seed, std::vector<double>& gradient) {
    const std::size_t V = std::size_t(l.V);
    const auto x = doubles(std::vector<T>(l.logits.begin() + std::ptrdiff_t(r * V),
                                          l.logits.begin() + std::ptrdiff_t((r + 1) * V)));
    gradient.assign(V, 0);
    const int target = l.targets[r];
    if (target < 0) return 0;
    double sum = 0;
    for (const double v : x) sum += std::exp(v);
    for (std::size_t j = 0; j < V; ++j)
        gradient[j] = seed * (std::exp(x[j]) / sum - (int(j) == target));
    return std::log(sum) - x[std::size_t(target)];
}

// fp32 inside: lse has n/32 + 8 roundings of the sum, each of relative size 2^-24, and one of its
// own size; x - lse another; e^(x - lse) has their sum as relative error. Then one rounding to T.
template <class T>
double error_in_ulps(const layer<T>& l, double seed) {
    double worst = 0;
    for (std::size_t r = 0; r < std::size_t(l.rows); ++r) {
        std::vector<double> want, slack;
        const double loss = definition(l, r, seed, want);
        const std::vector<T> got(l.dlogits.begin() + std::ptrdiff_t(r * want.size()),
                                 l.dlogits.begin() + std::ptrdiff_t((r + 1) * want.size()));
        const double lse = std::fabs(double(l.lse[r])), k = (l.V / 32.0 + 12 + 2 * lse) * 0x1p-24;
        CHECK(std::fabs(double(l.losses[r]) - loss) <= k * (1 + lse));
        for (const double g : want) slack.push_back(k * (std::fabs(g) + (g < 0 ? seed : 0)));
        worst = std::max(worst, worst_ulps(got, want, slack));
    }
    return worst;
}

} // namespace

TEST_CASE("cross-entropy: gradients by finite differences") {
    machine m;
    for (const auto [rows, V] : shapes) {
        layer<double> l(rows, V);
        l.forward(m);
        l.backward(m, 0.37);
        const auto gradient = l.dlogits;
        const auto loss = [&] {
            l.forward(m);
            double sum = 0;
            for (const double x : l.losses) sum += 0.37 * x;
            return sum;
        };
        CHECK(gradient_error(l.logits, gradient, loss) < gradient_tolerance);
        if (V == 31) { // the sabotage: the target's -1 forgotten in one row
            auto wrong = gradient;
            wrong[std::size_t(l.targets[0])] += 0.37;
            CHECK(gradient_error(l.logits, wrong, loss) > 1e-3);
        }
    }
}

TEST_CASE("cross-entropy: loss and gradient are the definition's, rounded once") {
    machine m;
    for (const auto [rows, V] : shapes) {
        layer<double> d(rows, V);
        layer<float> f(rows, V);
        layer<fp16> h(rows, V);
        layer<bf16> b(rows, V);
        d.forward(m), d.backward(m, 0.37);
        f.forward(m), f.backward(m, 0.37f);
        h.forward(m), h.backward(m, 1024); // a loss scale keeps fp16 gradients out of underflow
        b.forward(m), b.backward(m, 0.37f);
        CHECK(error_in_ulps(f, double(0.37f)) <= 0.5);
        CHECK(error_in_ulps(h, 1024) <= 0.5);
        CHECK(error_in_ulps(b, double(0.37f)) <= 0.5);
        for (std::size_t r = 0; r < std::size_t(rows); ++r) {
            std::vector<double> want;
            CHECK(d.losses[r] == doctest::Approx(definition(d, r, 1, want)).epsilon(1e-12));
        }
        if (V == 1025) { // the sabotage: softmax rounded to 16 bits before the seed
            for (fp16& g : h.dlogits) g = fp16(float(fp16(float(g) / 1024)) * 1024);
            CHECK(error_in_ulps(h, 1024) > 0.5);
        }
    }
}

TEST_CASE("ignored targets: loss 0, gradient exactly 0, also where a logit is not finite") {
    machine m;
    layer<bf16> l(3, 40);
    l.targets = {ignored_target, 5, -1};
    for (int j = 0; j < 40; ++j) l.logits[std::size_t(j)] = bf16(INFINITY);
    l.forward(m), l.backward(m, 1);
    CHECK(l.losses[0] == 0);
    CHECK(l.losses[1] > 0);
    CHECK(l.losses[2] == 0);
    bool exact = true, some = false;
    for (std::size_t j = 0; j < 40; ++j) {
        exact = exact && l.dlogits[j].bits == 0 && l.dlogits[80 + j].bits == 0;
        some = some || l.dlogits[40 + j].bits != 0; // the sabotage: a row that counts is not 0
    }
    CHECK(exact);
    CHECK(some);
}

TEST_CASE("a batch without one valid target is 0, not 0/0; beside one of loss 4 over 4 it is 1") {
    machine m;
    layer<float> none(2, 10), four(4, 3);
    none.targets = {-100, -100};
    none.forward(m), none.backward(m, 1);
    for (const float g : none.dlogits) CHECK(g == 0);
    // logits (0, 0, ln(e - 2)), target 0: the sum of e^x is e, so the loss is 1 a row
    for (int r = 0; r < 4; ++r) {
        four.targets[std::size_t(r)] = 0;
        four.logits[std::size_t(3 * r)] = four.logits[std::size_t(3 * r + 1)] = 0;
        four.logits[std::size_t(3 * r + 2)] = std::log(std::exp(1.0f) - 2);
    }
    four.forward(m);
    double sum = 0;
    int tokens = 0;
    for (const layer<float>* l : {&none, &four})
        for (std::size_t r = 0; r < l->targets.size(); ++r) {
            sum += double(l->losses[r]);
            tokens += l->targets[r] >= 0;
        }
    CHECK(tokens == 4);
    CHECK(sum / tokens == doctest::Approx(1.0).epsilon(1e-6));
}

TEST_CASE("logits of any size: nothing overflows on the way") {
    machine m;
    layer<fp16> l(1, 3);
    l.targets = {1};
    for (const float top : {60000.0f, -60000.0f}) {
        l.logits = {fp16(top), fp16(top - 32), fp16(top - 320)};
        l.forward(m), l.backward(m, 1);
        CHECK(l.losses[0] == doctest::Approx(32).epsilon(1e-3));
        CHECK(float(l.dlogits[0]) == doctest::Approx(1).epsilon(1e-3));
        CHECK(float(l.dlogits[1]) == -1);
        CHECK(float(l.dlogits[2]) == 0);
    }
    layer<float> masked(1, 3000); // -inf: a word that cannot come; whole blocks of them first
    masked.targets = {2999};
    for (int j = 0; j < 2999; ++j)
        masked.logits[std::size_t(j)] = -std::numeric_limits<float>::infinity();
    masked.logits[2999] = 5;
    masked.forward(m), masked.backward(m, 1);
    CHECK(masked.losses[0] == 0);
    CHECK(masked.dlogits[0] == 0);
    CHECK(masked.dlogits[2999] == 0);
    masked.logits[7] = std::numeric_limits<float>::quiet_NaN();
    masked.forward(m);
    CHECK(std::isnan(masked.losses[0])); // seen, not hidden
}

TEST_CASE("cross-entropy: same bits for 1, 2 and 3 threads, and in place") {
    machine one(1), two(2), three(3);
    layer<fp16> a(67, 1300), b(67, 1300), c(67, 1300);
    a.forward(one), b.forward(two), c.forward(three);
    a.backward(one, 8), b.backward(two, 8);
    CHECK((same_bits(a.losses, b.losses) && same_bits(a.lse, b.lse) && same_bits(a.lse, c.lse)));
    CHECK(same_bits(a.dlogits, b.dlogits));
    cross_entropy_backward<fp16>(three.on, span(c.logits), span(c.logits), span(c.lse),
                                 span(c.targets), 8, 67, 1300);
    CHECK(same_bits(a.dlogits, c.logits));
}

TEST_CASE("a target past the vocabulary is refused by name") {
    machine m;
    layer<float> l(3, 7);
    l.targets[1] = 7;
    CHECK_THROWS_WITH_AS(l.forward(m),
                         "cross_entropy: target 7 in row 1; wanted is 0 to 6, or -100 "
                         "for none", error);
    CHECK_THROWS_AS(l.backward(m, 1), error);
    l.rows = 2;
    CHECK_THROWS_AS(l.forward(m), error);
}
