// SPDX-License-Identifier: MIT
#include "mpt/train/bigram.hpp" // bigram_entropy

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

using namespace mpt;

static std::uint32_t noise(std::uint32_t& state) {
    state = state * 1664525 + 1013904223;
    return state >> 8;
}
// Tokens whose next token depends on the one before: (3a + 1 or + 2 or + 3) mod vocab.
static token_data chain(std::size_t n, int vocab, std::uint32_t state) {
    token_data d{{}, vocab, "chain", n - n / 10};
    std::uint32_t a = 0;
    for (std::size_t i = 0; i < n; ++i) {
        a = (3 * a + 1 + noise(state) % 3) % std::uint32_t(vocab);
        d.tokens.push_back(std::uint16_t(a));
    }
    return d;
}

// The card's formula with maps, token by token.
static double model(const token_data& d, double D, bool kneser_ney) {
    const double V = d.vocabulary;
    std::map<std::pair<int, int>, double> n2;
    std::map<int, double> n1, before;
    std::map<int, std::set<int>> after, ahead;
    for (std::size_t i = 0; i < d.train_end; ++i) {
        ++n1[d.tokens[i]];
        if (i == 0) continue;
        const int a = d.tokens[i - 1], b = d.tokens[i];
        ++n2[{a, b}], ++before[a];
        after[a].insert(b), ahead[b].insert(a);
    }
    double sum = 0;
    for (std::size_t i = d.train_end + 1; i < d.tokens.size(); ++i) {
        const int a = d.tokens[i - 1], b = d.tokens[i];
        const double q = kneser_ney ? (double(ahead[b].size()) + 1) / (double(n2.size()) + V)
                                    : (n1[b] + 1) / (double(d.train_end) + V);
        const double pair = n2.count({a, b}) ? n2[{a, b}] : 0;
        const double p =
            before[a] > 0 ? (std::max(pair - D, 0.0) + D * double(after[a].size()) * q) / before[a]
                          : q;
        sum -= std::log(p);
    }
    return sum / double(d.tokens.size() - d.train_end - 1);
}

TEST_CASE("equal to the formula counted with maps, for small and large vocabularies") {
    for (const int vocab : {2, 7, 256, 50257})
        for (const std::size_t n : {std::size_t(20), std::size_t(101), std::size_t(3000)}) {
            const token_data d = chain(n, vocab, std::uint32_t(n) + std::uint32_t(vocab));
            const bigram b = bigram_entropy(d);
            CHECK(b.nats == doctest::Approx(model(d, b.discount, b.kneser_ney)).epsilon(1e-12));
            for (const double D : {0.1, 0.5, 0.95}) // the best of those tried
                for (const bool kn : {false, true}) CHECK(b.nats <= model(d, D, kn) + 1e-12);
        }
}

TEST_CASE("a chain with three choices a token costs ln 3, noise costs ln V") {
    CHECK(bigram_entropy(chain(200000, 97, 1)).nats == doctest::Approx(std::log(3)).epsilon(0.01));
    token_data d{{}, 16, "noise", 90000};
    std::uint32_t state = 5;
    for (int i = 0; i < 100000; ++i) d.tokens.push_back(std::uint16_t(noise(state) % 16));
    CHECK(bigram_entropy(d).nats == doctest::Approx(std::log(16)).epsilon(0.01));
}

TEST_CASE("probabilities of all next tokens add up to 1") {
    token_data d = chain(2000, 11, 3);
    // Held out: one pair (a, b) at a time; sum exp(-nats) over b with one fixed setting by hand.
    for (const bool kn : {false, true}) {
        double sum = 0;
        for (int b = 0; b < 11; ++b) {
            d.tokens.resize(1900);
            d.tokens.push_back(4), d.tokens.push_back(std::uint16_t(b));
            d.train_end = 1900;
            sum += std::exp(-model(d, 0.7, kn));
        }
        CHECK(sum == doctest::Approx(1).epsilon(1e-12));
    }
}

TEST_CASE("sabotage: counting the held-out part too looks far better than it is") {
    token_data d{{}, 50257, "words", 1800};
    std::uint32_t state = 9;
    for (int i = 0; i < 2000; ++i) d.tokens.push_back(std::uint16_t(noise(state) % 3000));
    const double honest = bigram_entropy(d).nats;
    token_data leak = d;
    leak.tokens.insert(leak.tokens.begin(), d.tokens.begin() + 1800, d.tokens.end());
    leak.train_end += 200;
    CHECK(bigram_entropy(leak).nats < honest - 1);
}

TEST_CASE("too little to count is refused") {
    CHECK_THROWS_AS(bigram_entropy(chain(19, 5, 1)), error); // 18 + 1
    CHECK_NOTHROW(bigram_entropy(chain(20, 5, 1)));
}
