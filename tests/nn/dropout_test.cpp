// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/dropout.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace mpt;
using namespace checks;

namespace {

const dropout_key key{0x123456789ABCDEFull, 3, 5, 8};

template <class T = float>
std::vector<T> forward(machine& m, const std::vector<T>& x, float p, dropout_key k,
                       dropout_shape s) {
    std::vector<T> y(x.size());
    dropout_forward<T>(m.on, span(y), span(x), p, k, s);
    return y;
}

std::vector<float> ones(std::size_t n) { return std::vector<float>(n, 1.0f); }

double kept(const std::vector<float>& mask) {
    double n = 0;
    for (const float x : mask) n += x != 0;
    return n;
}

} // namespace

TEST_CASE("the mask is the card's formula, element by element") {
    machine m;
    const dropout_shape s{3, 5001}; // 5001: the last counter of a sample is not used up
    const float p = 0.3f;
    const auto y = forward(m, ones(3 * 5001), p, key, s);
    bool same = true, neighbour = true;
    for (std::uint32_t b = 0; b < 3; ++b)
        for (std::uint32_t e = 0; e < 5001; ++e) {
            const auto want = [&](std::uint32_t step) {
                const philox4 r = philox({{e / 4, 8 + b, step, 3}}, 0x89ABCDEF, 0x01234567);
                return uniform01(r.x[e % 4]) >= p ? 1 / (1 - p) : 0.0f;
            };
            same = same && y[b * 5001 + e] == want(5);
            neighbour = neighbour && y[b * 5001 + e] == want(6); // the sabotage: another step
        }
    CHECK(same);
    CHECK_FALSE(neighbour);
}

TEST_CASE("backward draws forward's mask") {
    machine m;
    const dropout_shape s{2, 3000};
    const auto x = numbers<float>(6000, 1), dy = numbers<float>(6000, 2);
    const auto y = forward(m, x, 0.5f, key, s);
    std::vector<float> dx(6000);
    dropout_backward<float>(m.on, span(dx), span(dy), 0.5f, key, s);
    bool same = true;
    for (std::size_t i = 0; i < 6000; ++i)
        same = same && y[i] == (dx[i] == 0 ? 0 : 2 * x[i]) && (dx[i] == 0 || dx[i] == 2 * dy[i]);
    CHECK(same);
}

TEST_CASE("the share that is kept is 1 - p, and the mean stays") {
    machine m;
    for (const float p : {0.1f, 0.5f, 0.9f}) {
        const double n = 200000;
        const auto y = forward(m, ones(200000), p, key, {1, 200000});
        const double deviation = std::sqrt(n * p * (1 - p)); // of a binomial count; 5 of them
        CHECK(std::fabs(kept(y) - n * (1 - p)) < 5 * deviation);
        const double sum = dot(doubles(y), std::vector<double>(200000, 1));
        CHECK(std::fabs(sum - n) < 5 * deviation / (1 - p));
    }
}

TEST_CASE("every part of the key matters, and masks of different keys are independent") {
    machine m;
    const std::size_t n = 40000;
    const auto mask = [&](dropout_key k) { return forward(m, ones(n), 0.5f, k, {1, n}); };
    const auto first = mask(key);
    dropout_key others[5] = {key, key, key, key, key};
    others[0].seed ^= 1, others[1].seed ^= 1ull << 40;
    others[2].layer++, others[3].step++, others[4].sample++;
    for (const dropout_key& k : others) {
        const auto other = mask(k);
        double both = 0;
        for (std::size_t i = 0; i < n; ++i) both += first[i] != 0 && other[i] != 0;
        CHECK(std::fabs(both - n / 4.0) < 5 * std::sqrt(n * 3 / 16.0));
    }
    CHECK(same_bits(first, mask(key)));
}

TEST_CASE("the masks of 3 ranks are those of the joined batch") {
    machine m;
    const std::size_t each = 1001;
    const auto joined = forward(m, ones(6 * each), 0.2f, key, {6, each});
    std::vector<float> parts;
    for (int rank = 0; rank < 3; ++rank) {
        dropout_key k = key;
        k.sample += rank * 2;
        const auto part = forward(m, ones(2 * each), 0.2f, k, {2, each});
        parts.insert(parts.end(), part.begin(), part.end());
    }
    CHECK(same_bits(joined, parts));
}

TEST_CASE("a run may begin inside a counter's four words") {
    const std::size_t n = 5000;
    std::vector<float> whole = ones(n);
    drop(whole.data(), 0, n, 0.5f, key, 0);
    for (const std::size_t first : {1, 2, 3, 5, 1023, 1025}) {
        std::vector<float> part = ones(n - first);
        drop(part.data(), first, n - first, 0.5f, key, 0);
        CHECK(std::equal(part.begin(), part.end(), whole.begin() + std::ptrdiff_t(first)));
    }
}

TEST_CASE("residual: x + dropout(branch), rounded once; p = 0 adds, and copies") {
    machine m;
    const dropout_shape s{2, 2000};
    const auto x = numbers<fp16>(4000, 1), branch = numbers<fp16>(4000, 2);
    const auto mask = forward(m, ones(4000), 0.4f, key, s);
    std::vector<fp16> out(4000), sum(4000);
    residual_forward<fp16>(m.on, span(out), span(x), span(branch), 0.4f, key, s);
    residual_forward<fp16>(m.on, span(sum), span(x), span(branch), 0, key, s);
    bool same = true;
    for (std::size_t i = 0; i < 4000; ++i) {
        same = same && out[i].bits == fp16(float(x[i]) + float(branch[i]) * mask[i]).bits;
        same = same && sum[i].bits == fp16(float(x[i]) + float(branch[i])).bits;
    }
    CHECK(same);
    CHECK(same_bits(x, forward(m, x, 0, key, s)));
    auto place = branch;
    residual_forward<fp16>(m.on, span(place), span(x), span(place), 0.4f, key, s);
    CHECK(same_bits(out, place));
}

TEST_CASE("what is dropped is 0, even if it was infinite") {
    machine m;
    const std::vector<float> x(1000, std::numeric_limits<float>::infinity());
    for (const float y : forward(m, x, 0.5f, key, {1, 1000})) CHECK_FALSE(std::isnan(y));
}

TEST_CASE("dropout: same bits for 1, 2 and 3 threads") {
    machine one(1), two(2), three(3);
    const dropout_shape s{3, 40001};
    const auto x = numbers<bf16>(3 * 40001, 1);
    const auto y = forward(one, x, 0.1f, key, s);
    CHECK(same_bits(y, forward(two, x, 0.1f, key, s)));
    CHECK(same_bits(y, forward(three, x, 0.1f, key, s)));
}

TEST_CASE("p must be 0 or more and less than 1") {
    machine m;
    CHECK_THROWS_WITH_AS(forward(m, ones(3), 1, key, {1, 3}),
                         "dropout: p = 1; wanted is 0 or more and less than 1", error);
    CHECK_THROWS_AS(forward(m, ones(3), -0.1f, key, {1, 3}), error);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_AS(forward(m, ones(3), nan, key, {1, 3}), error);
    CHECK_THROWS_WITH_AS(forward(m, ones(3), 0.5f, key, {2, 3}),
                         "dropout: arrays of 3 and 3 elements for 2 samples of 3; they must agree",
                         error);
}
