// SPDX-License-Identifier: MIT
#include "mpt/kernels/cross_entropy.cuh"
#include "mpt/nn/cross_entropy.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace rig;

namespace {

struct shape {
    int rows, V;
};
const shape shapes[] = {{1, 1},    {3, 31},   {33, 33},   {9, 257},
                        {4, 1600}, {5, 1601}, {2, 50304}, {0, 9}};

template <class H>
struct problem {
    shape s;
    float seed = 1024.0f / 7;
    std::vector<H> logits;
    std::vector<int> targets;
    explicit problem(shape of)
        : s(of), logits(checks::numbers<H>(std::size_t(of.rows) * std::size_t(of.V), 1, 4)),
          targets(checks::tokens(std::size_t(of.rows), 2, of.V)) {
        if (targets.size() > 3) targets[1] = mpt::ignored_target, targets[3] = -1;
    }
};

struct exact { // in fp64, with the roundings of fp32 that may lie between
    std::vector<double> losses, lse, dlogits, lse_slack, slack;
};

// |d| 2^-24 for d = x - m, 2 ulp for expf; n / threads + 20 roundings of the sum, its rescalings;
// the logarithm turns relative errors into absolute ones; lse is rounded, then x - lse again.
template <class H>
exact definition(const problem<H>& p) {
    const std::size_t n = std::size_t(p.s.V), R = std::size_t(p.s.rows);
    const auto x = checks::doubles(p.logits);
    exact e;
    e.dlogits = e.slack = std::vector<double>(R * n);
    for (std::size_t r = 0; r < R; ++r) {
        const double* const row = x.data() + r * n;
        const double most = *std::max_element(row, row + n);
        double sum = 0, depth = 0;
        for (std::size_t i = 0; i < n; ++i) sum += std::exp(row[i] - most);
        for (std::size_t i = 0; i < n; ++i)
            depth += std::exp(row[i] - most) / sum * (most - row[i]);
        const double lse = most + std::log(sum), u = 0x1p-24;
        const double terms = double(n) / double(threads_for(n, 8, 1024)) + 20;
        const double lse_slack = (depth + 8 + 5 * terms) * u + 2 * std::fabs(lse) * u;
        const int t = p.targets[r];
        e.lse.push_back(lse);
        e.lse_slack.push_back(lse_slack);
        e.losses.push_back(t < 0 ? 0 : lse - row[t]);
        for (std::size_t i = 0; i < n && t >= 0; ++i) {
            const double share = std::exp(row[i] - lse), hit = i == std::size_t(t) ? 1 : 0;
            e.dlogits[r * n + i] = (share - hit) * double(p.seed);
            e.slack[r * n + i] =
                double(p.seed) * (share * (lse_slack + (std::fabs(row[i] - lse) + 6) * u) +
                                  hit * u + 2 * std::fabs(share - hit) * u);
        }
    }
    return e;
}

template <class H>
bool losses_agree(const std::vector<float>& found, const exact& e, const problem<H>& p) {
    return difference(found, e.losses, [&](std::size_t r) {
               return p.targets[r] < 0 ? 0.0 : e.lse_slack[r];
           }) == "";
}

} // namespace

TEST_CASE_TEMPLATE("forward, backward, and both in one", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const shape& s : shapes)
        for (const std::size_t offset : {0, 1}) {
            const problem<H> p(s);
            const exact e = definition(p);
            const std::size_t R = std::size_t(s.rows);
            array<T> logits(p.logits, offset), dlogits(p.logits.size());
            const array<int> targets(p.targets);
            array<float> losses(R), lse(R), again(R);
            const auto of_lse = [&](std::size_t r) { return e.lse_slack[r]; };
            const auto of_gradient = [&](std::size_t i) { return e.slack[i]; };

            cross_entropy_forward<T>({losses, lse, logits, targets, s.rows, s.V}, stream());
            CHECK(difference(lse.read(), e.lse, of_lse) == "");
            CHECK(losses_agree(losses.read(), e, p));
            cross_entropy_backward<T>(
                {dlogits, logits, lse, targets, p.seed, nullptr, s.rows, s.V}, stream());
            const auto apart = dlogits.read();
            CHECK(difference(apart, e.dlogits, of_gradient) == "");
            // in one pass: the very bits of the two
            const array<float> seed(std::vector<float>{p.seed}); // from the device
            cross_entropy<T>({again, lse, logits, targets, -1, seed, s.rows, s.V}, stream());
            CHECK(difference(again.read(), losses.read()) == "");
            if (offset == 0) CHECK(difference(logits.read(), apart) == "");
            CHECK(difference(logits.read(), e.dlogits, of_gradient) == "");
        }
}

TEST_CASE("the plain loop's answers where logits or targets are odd") {
    const int V = 40;
    std::vector<float> x = checks::numbers<float>(7 * 40, 3, 2);
    std::vector<int> targets{3, 5, -100, 39, 0, 7, -1};
    const float inf = INFINITY, nan = std::nanf("");
    for (std::size_t i = 0; i < 40; ++i) x[i] += 1e4f;      // e^x is infinite
    for (std::size_t i = 40; i < 80; ++i) x[i] = -inf;      // nothing to choose from
    x[80] = nan, x[81] = inf;                               // of an ignored row
    for (std::size_t i = 120; i < 159; ++i) x[i] = -inf;    // one choice, which is the target
    x[160 + 9] = nan;
    x[200 + 8] = inf;
    const array<int> on_targets(targets);
    array<float> logits(x), losses(7), lse(7), dlogits(x.size());
    cross_entropy_forward<float>({losses, lse, logits, on_targets, 7, V}, stream());
    cross_entropy_backward<float>({dlogits, logits, lse, on_targets, 2.0f, nullptr, 7, V},
                                  stream());

    checks::machine m;
    std::vector<float> l(7), sums(7), gradient(x.size());
    mpt::cross_entropy_forward<float>(m.on, checks::span(l), checks::span(sums), checks::span(x),
                                      checks::span(std::as_const(targets)), 7, V);
    mpt::cross_entropy_backward<float>(m.on, checks::span(gradient), checks::span(x),
                                       checks::span(std::as_const(sums)),
                                       checks::span(std::as_const(targets)), 2.0f, 7, V);
    // NaN with NaN, infinity with infinity, numbers to some ulps of the largest term
    CHECK(difference(lse.read(), checks::doubles(sums), [&](std::size_t r) {
              return 4 * checks::ulp<float>(double(sums[r]));
          }) == "");
    CHECK(difference(losses.read(), checks::doubles(l), [&](std::size_t r) {
              return 4 * checks::ulp<float>(double(sums[r]));
          }) == "");
    CHECK(difference(dlogits.read(), checks::doubles(gradient), [&](std::size_t i) {
              return i < 40 ? 2e-3 : 1e-6; // lse near 1e4 has steps of 2^-10
          }) == "");
}

TEST_CASE("a target past the vocabulary: NaN, and nothing else is touched") {
    const problem<float> p({3, 33});
    std::vector<int> targets = p.targets;
    targets[1] = 33;
    array<float> logits(p.logits), losses(3);
    const array<int> on(targets);
    cross_entropy<float>({losses, nullptr, logits, on, 1, nullptr, 3, 33}, stream());
    const auto l = losses.read(), d = logits.read();
    CHECK(std::isfinite(l[0]));
    CHECK(std::isnan(l[1]));
    CHECK(std::isfinite(l[2]));
    for (std::size_t i = 0; i < d.size(); ++i) CHECK(std::isnan(d[i]) == (i >= 33 && i < 66));
}

TEST_CASE("the same bits in any order of threads") {
    const problem<float> p({3, 1601});
    CHECK(in_all_orders([&] {
              array<float> logits(p.logits), losses(3);
              const array<int> targets(p.targets);
              cross_entropy<float>({losses, nullptr, logits, targets, 1, nullptr, 3, 1601},
                                   stream());
              auto all = logits.read();
              for (const float x : losses.read()) all.push_back(x);
              return all;
          }) == "");
}

#if defined(MPT_SIMT_CHECK)
namespace {

// Sabotage: cross_entropy_kernel without its barrier.
__global__ void without_barrier_kernel(cross_entropy_args<float> a) {
    float* const x = a.logits;
    const float lse = log_of_sum(static_cast<const float*>(x), std::size_t(a.V));
    if (threadIdx.x == 0)
        a.losses[0] = loss_of(static_cast<const float*>(x), lse, a.targets[0], a.V);
    write_gradient(x, static_cast<const float*>(x), lse, a.targets[0], a.seed, a.V);
}

} // namespace

TEST_CASE("without the barrier the target's logit races with its gradient") {
    problem<float> p({1, 257});
    p.targets[0] = 200; // another warp's
    array<float> logits(p.logits), losses(1);
    const array<int> targets(p.targets);
    const cross_entropy_args<float> a{losses, nullptr, logits, targets, 1, nullptr, 1, 257};
    CHECK(faults("racecheck", [&] { cross_entropy<float>(a, stream()); }) == 0);
    CHECK(faults("racecheck", [&] {
              mpt::launch<without_barrier_kernel>({1, 96, 0, stream()}, a);
          }) > 0);
}
#endif
