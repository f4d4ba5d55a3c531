// SPDX-License-Identifier: MIT
#include "../../chapters/train/rank_table.hpp"

#include "mpt/comm/world.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace mpt;

namespace {

layout two_units() {
    layout map;
    map.add_unit("embedding");
    map.add("a", {1000}, 1);
    map.add_unit("block 0");
    map.add("b", {700}, 1);
    return map;
}

rank_account some_account() {
    rank_account a;
    a.held.at(kind::weights) = a.planned.at(kind::weights) = 100;
    a.held.at(kind::master) = a.planned.at(kind::master) = 7;
    a.padding = 3;
    a.sent.at(verb::all_gather, element::fp16) = 50;
    a.promised.at(verb::all_gather, element::fp16) = 50;
    return a;
}

options of(int ranks, int zero, const char* reduce, int micros) {
    options o;
    o.ranks = ranks, o.zero = zero, o.reduce = reduce, o.micro_batches = micros;
    return o;
}

} // namespace

TEST_CASE("the table says equal only where all is") {
    std::vector<rank_account> all(5, some_account());
    CHECK(print_accounts(all, 10));
    all[4].held.at(kind::master) += 1; // sabotage: a byte that nobody planned
    CHECK_FALSE(print_accounts(all, 10));
    all[4] = some_account();
    all[2].sent.at(verb::agree, element::fp64) = 1; // and a number that nobody promised
    CHECK_FALSE(print_accounts(all, 10));
}

TEST_CASE("accounts travel between ranks as they are") {
    run_ranks(3, [](communicator& comm) {
        rank_account mine = some_account();
        mine.padding = std::size_t(comm.rank()) + (std::size_t(1) << 40);
        const std::vector<rank_account> all = all_accounts(comm, mine);
        REQUIRE(all.size() == 3);
        for (std::size_t r = 0; r < 3; ++r) {
            CHECK(all[r].padding == r + (std::size_t(1) << 40));
            CHECK(all[r].held.bytes == mine.held.bytes);
            CHECK(all[r].sent.n == mine.sent.n);
            CHECK(all[r].promised.n == mine.promised.n);
        }
    });
}

TEST_CASE("times (N-1)/N and the parameters: the formulas of reduce_mode.hpp") {
    const layout map = two_units();
    const std::size_t steps = 3;
    for (const int N : {1, 2, 3, 4})
        for (const int M : {1, 2, 4})
            for (const bool once : {true, false}) {
                const partition cut(map, N);
                const auto sum = [&](int zero) { // over ranks, without the numbers they agree on
                    std::size_t all = 0;
                    for (int r = 0; r < N; ++r) {
                        elements_sent x =
                            planned_traffic(of(N, zero, once ? "once" : "every", M), map, cut, r,
                                            element::fp16, {steps, steps, 0}, 0);
                        for (const auto& of_verb : x.n)
                            for (const std::size_t n : of_verb) all += n;
                        all -= x.at(verb::agree, element::fp64);
                    }
                    return all;
                };
                const std::size_t m = std::size_t(M), padded = cut.padded_size() * steps;
                const std::size_t others = std::size_t(N) - 1;
                CHECK(sum(0) == others * map.size() * steps * (once ? 2 : 2 * m));
                CHECK(sum(1) == others * padded * (once ? 2 : m + 1));
                CHECK(sum(2) == sum(1));
                CHECK(sum(3) == others * padded * (once ? 2 * m + 1 : 3 * m));
            }
}

TEST_CASE("units that are whole for a while are padded, on one rank they are its own") {
    layout map = two_units();
    map.add_unit("block 1");
    map.add("c", {700}, 1);
    const partition cut(map, 2);
    const std::size_t U = 1024, B = 1024; // 2 x 512
    const checkpointing none = checkpointing::parse("none", 2);
    CHECK(whole_units(1, cut, none, true, true) == 0);
    CHECK(whole_units(2, cut, none, true, true) == U + 2 * B);
    CHECK(whole_units(2, cut, none, false, true) == U + B);
    CHECK(whole_units(3, cut, none, true, false) == U + 2 * B + B);
    CHECK(whole_units(3, cut, none, false, false) == U + B + B);
    CHECK(whole_units(3, partition(map, 1), none, true, true) == 0);
}
