// SPDX-License-Identifier: MIT
// What a run of each stage holds and sends, against the formulas on the cards.
#include "ladder.hpp"
#include "mpt/nn/model_size.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

using namespace ladder;

namespace {

std::size_t bytes_of_weight(const trial& j) { return j.type == precision::fp32 ? 4 : 2; }

std::vector<account> accounts(int ranks, const trial& j) {
    std::vector<account> all(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](communicator& comm) { train(comm, j, &all[std::size_t(comm.rank())]); });
    return all;
}

/// strategy_sizes.hpp: s (weights + micro) + 4 sum + 12 owned, 8 where weights are fp32.
std::size_t lasting(const trial& j, const strategy_sizes& n) {
    return bytes_of_weight(j) * (n.weights + n.micro) + 4 * n.sum +
           (j.type == precision::fp32 ? 8 : 12) * n.owned;
}

/// nn/model_size.hpp, of padded units.
std::size_t in_flight(const trial& j, std::size_t U, std::size_t B) {
    if (j.stage < 2) return 0;
    const bool sums = j.mode == reduce_mode::once && j.micros > 1; // gradients are freed at once
    const checkpointing plan = j.again ? checkpointing::every(j.again, 3) : checkpointing::none(3);
    const flight f = units_in_flight(plan, U, B, j.ahead > 0, j.ahead > 0 && !sums);
    return j.stage == 2 ? f.grads : f.all;
}

/// Elements a rank sends in a step, in units of its shard of everything.
std::size_t sends(const trial& j) {
    const std::size_t M = std::size_t(j.micros);
    if (j.mode == reduce_mode::once || M == 1) return j.stage == 3 ? 2 * M + 1 : 2;
    return j.stage == 0 ? 2 * M : j.stage == 3 ? 3 * M : M + 1;
}

std::vector<trial> trials() {
    std::vector<trial> all;
    for (int stage = 0; stage <= 3; ++stage)
        for (const precision type : {precision::fp32, precision::bf16})
            for (const int micros : {1, 3})
                for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every})
                    for (const int ahead : {0, 1})
                        for (const int again : {0, 1, 2})
                            for (const int vocabulary : {40, 700}) {
                                if (stage < 2 && (ahead == 0 || again > 0)) continue;
                                if (stage == 2 && again > 0) continue;
                                trial j;
                                j.stage = stage;
                                j.type = type;
                                j.micros = micros;
                                j.mode = mode;
                                j.ahead = ahead;
                                j.again = again;
                                j.vocabulary = vocabulary;
                                j.overflow = -1;
                                j.steps = 3;
                                all.push_back(j);
                            }
    return all;
}

} // namespace

TEST_CASE("ledger and traffic are what the cards say, to the byte") {
    for (const trial& j : trials())
        for (const int ranks : {1, 2, 3}) {
            const std::string what = to_string(j);
            CAPTURE(what);
            CAPTURE(ranks);
            CAPTURE(j.vocabulary);
            const std::vector<account> all = accounts(ranks, j);
            const std::size_t N = std::size_t(ranks), s = bytes_of_weight(j);
            std::size_t elements = 0, reduced = 0, gathered = 0, owned = 0, packed = 0;
            for (const account& a : all) {
                CHECK(a.lasting == lasting(j, a.sizes));
                CHECK(a.peak_in_flight ==
                      (ranks == 1 ? 0 : s * in_flight(j, N * a.shard[0], N * a.shard[1])));
                CHECK(a.left == 0);
                owned += a.sizes.owned;
                packed = 0;
                for (const std::size_t shard : a.shard) packed += shard;
                for (const verb v : {verb::all_reduce, verb::reduce_scatter, verb::all_gather})
                    for (const auto& [e, sent] : a.traffic.at(v)) {
                        elements += sent.elements;
                        (v == verb::all_gather ? gathered : reduced) += sent.bytes;
                    }
            }
            CHECK(owned == (j.stage == 0 ? N : 1) * all[0].parameters);

            // The first step's sums are not in the account, its publish is: see the step.
            const std::size_t steps = std::size_t(j.steps);
            const std::size_t first = std::size_t(j.stage == 1 || j.stage == 2); // publishes
            const std::size_t all_of_it = (N - 1) * (j.stage == 0 ? all[0].parameters : N * packed);
            CHECK(elements == all_of_it * (sends(j) * (steps - 1) + first));
            // sums travel in fp32 where they are of a window, all else in the weights' format
            const std::size_t M = std::size_t(j.micros);
            const bool sums = j.mode == reduce_mode::once && M > 1;
            const std::size_t of_sums = sums ? 4 : s * (j.mode == reduce_mode::every ? M : 1);
            CHECK(reduced == all_of_it * (steps - 1) * of_sums * (j.stage == 0 ? 2 : 1));
            const std::size_t of_gathers = j.stage == 0   ? 0
                                           : j.stage == 3 ? 2 * M * (steps - 1)
                                                          : steps;
            CHECK(gathered == all_of_it * s * of_gathers);
        }
}

TEST_CASE("... and another formula is not") {
    trial j;
    j.stage = 2;
    j.type = precision::bf16;
    j.micros = 2;
    j.mode = reduce_mode::every;
    j.overflow = -1;
    const account a = accounts(3, j)[1];
    CHECK(a.lasting == lasting(j, a.sizes));
    trial other = j;
    other.type = precision::fp32;
    CHECK(a.lasting != lasting(other, a.sizes));
    other = j;
    other.ahead = 0;
    CHECK(a.peak_in_flight == 2 * in_flight(j, 3 * a.shard[0], 3 * a.shard[1]));
    CHECK(a.peak_in_flight != 2 * in_flight(other, 3 * a.shard[0], 3 * a.shard[1]));
}
