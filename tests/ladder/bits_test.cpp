// SPDX-License-Identifier: MIT
// ddp = ZeRO-1 = ZeRO-2 = ZeRO-3, bit for bit: weights, master, moments, losses, norms, scales.
#include "ladder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <vector>

using namespace ladder;

namespace {

const bool soak = std::getenv("MPT_SOAK") != nullptr; // all of the product, not a twentieth

constexpr int rank_counts[] = {1, 2, 3, 4, 7, 8};
constexpr std::array<int, 7> choices = {6, 4, 2, 3, 2, 3, 4}; // of each of these:
enum { of_ranks, of_micros, of_mode, of_type, of_again, of_rule, of_rest };

constexpr int product() {
    int n = 1;
    for (const int c : choices) n *= c;
    return n;
}
std::array<int, 7> choice(int number) {
    std::array<int, 7> x{};
    for (std::size_t f = 0; f < x.size(); ++f) {
        x[f] = number % choices[f];
        number /= choices[f];
    }
    return x;
}
/// The numbers of the runs, in an order whose first twentieth has every pair of choices.
std::vector<int> numbers() {
    std::vector<int> all;
    const int n = soak ? product() : product() / 20;
    for (int i = 0; i < n; ++i) all.push_back(int(long(i) * 1429 % product()));
    return all;
}

/// Do all stages come to the same?
void climb(int ranks, trial j) {
    j.stage = 0;
    const outcome ddp = run(ranks, j);
    for (j.stage = 1; j.stage <= 3; ++j.stage) {
        const std::string what = to_string(j);
        CAPTURE(ranks);
        CAPTURE(what);
        const outcome zero = run(ranks, j);
        CHECK(zero.loss == ddp.loss);
        CHECK(zero.norm == ddp.norm);
        CHECK(zero.scale == ddp.scale);
        CHECK(zero.weights == ddp.weights);
        CHECK(zero.shards == ddp.shards);
        CHECK(zero.master == ddp.master);
        CHECK(zero.moments == ddp.moments);
    }
    // The run has seen what it is to show: a step that was skipped, others that were clipped.
    CHECK(ddp.scale[3] == ddp.scale[2] / 2);
    CHECK(ddp.norm[2] == -1);
    CHECK(*std::max_element(ddp.norm.begin(), ddp.norm.end()) > j.clip);
}

} // namespace

TEST_CASE("ddp = zero1 = zero2 = zero3, bit for bit") {
    for (const int number : numbers()) {
        const auto x = choice(number);
        trial j;
        j.micros = 1 + x[of_micros];
        j.mode = reduce_mode(x[of_mode]);
        j.type = precision(x[of_type]);
        j.again = x[of_again];
        j.optimizer = rule(x[of_rule]);
        if (j.optimizer == rule::adam8bit) j.channels = 32; // a tensor is large enough for 8 bits
        j.mlp = x[of_rest] == 0;
        j.dropout = x[of_rest] == 1 ? 0 : 0.1f;
        j.ahead = x[of_rest] == 2 ? 0 : 1;
        j.bucket = x[of_rest] == 3 ? 1 : bucket_bytes;
        climb(rank_counts[x[of_ranks]], j);
    }
}

TEST_CASE("what is run has every pair of choices") {
    std::set<std::array<int, 4>> met;
    std::size_t wanted = 0;
    for (const int number : numbers())
        for (int a = 0; a < 7; ++a)
            for (int b = 0; b < a; ++b)
                met.insert({a, b, choice(number)[std::size_t(a)], choice(number)[std::size_t(b)]});
    for (std::size_t a = 0; a < 7; ++a)
        for (std::size_t b = 0; b < a; ++b) wanted += std::size_t(choices[a] * choices[b]);
    CHECK(met.size() == wanted);
}

TEST_CASE("the two modes differ by rounding; within each all is one") {
    trial once, every;
    once.micros = every.micros = 3;
    every.mode = reduce_mode::every;
    CHECK_FALSE(run(3, once) == run(3, every));
    once.micros = every.micros = 1; // one micro-batch: nothing to add up
    CHECK(run(3, once) == run(3, every));
}

TEST_CASE("blocks that are run again have the same bits") {
    for (int stage = 0; stage <= 3; ++stage)
        for (const precision type : {precision::fp32, precision::bf16}) {
            trial kept;
            kept.stage = stage;
            kept.type = type;
            kept.micros = 2;
            trial again = kept, twice = kept;
            again.again = 1;
            twice.again = 2;
            const outcome wanted = run(3, kept);
            CHECK(run(3, again) == wanted);
            CHECK(run(3, twice) == wanted);
            again.dropout = 0; // sabotage: other masks
            CHECK_FALSE(run(3, again) == wanted);
        }
}
