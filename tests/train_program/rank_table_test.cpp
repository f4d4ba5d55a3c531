// SPDX-License-Identifier: MIT
#include "../../chapters/train/rank_table.hpp"

#include "../../chapters/train/offload_plan.hpp"
#include "../../chapters/train/place_table.hpp"

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

TEST_CASE("... of every place, and of the bytes that cross") {
    const auto account = [] {
        rank_account a = some_account();
        a.held.at(kind::moments, place::file) = a.planned.at(kind::moments, place::file) = 56;
        a.held.at(kind::grads, place::host) = a.planned.at(kind::grads, place::host) = 14;
        a.crossed = a.to_cross = {12, 6};
        return a;
    };
    rank_account wrong[4] = {account(), account(), account(), account()};
    wrong[0].held.at(kind::moments, place::file) += 1; // sabotage: each alone is seen
    wrong[1].planned.at(kind::grads, place::host) -= 1;
    wrong[2].crossed.out += 1;
    wrong[3].to_cross.in += 1;
    CHECK(print_places(account(), 10));
    CHECK(print_accounts({account(), account()}, 10));
    for (const rank_account& a : wrong) {
        CHECK_FALSE(print_places(a, 10));
        CHECK_FALSE(print_accounts({account(), a}, 10));
    }
    rank_account skipped = account(); // all steps: gradients have left, no weights came
    skipped.crossed = skipped.to_cross = {12, 0};
    CHECK(print_accounts({skipped, skipped}, 10));
    skipped.crossed.out += 1;
    CHECK_FALSE(print_accounts({skipped, skipped}, 10));
}

TEST_CASE("accounts travel between ranks as they are") {
    run_ranks(3, [](communicator& comm) {
        rank_account mine = some_account();
        mine.held.at(kind::sums, place::host) = 20;
        mine.planned.at(kind::master, place::file) = 30;
        mine.to_cross.in = 40;
        mine.padding = std::size_t(comm.rank()) + (std::size_t(1) << 40);
        const std::vector<rank_account> all = all_accounts(comm, mine);
        REQUIRE(all.size() == 3);
        for (std::size_t r = 0; r < 3; ++r) {
            CHECK(all[r].padding == r + (std::size_t(1) << 40));
            CHECK(all[r].held.bytes == mine.held.bytes);
            CHECK(all[r].planned.bytes == mine.planned.bytes);
            CHECK(all[r].to_cross.in == 40);
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
    // ... unless its weights are away
    CHECK(whole_units(3, partition(map, 1), none, true, true, true) == 1024 + 3 * 768);
    CHECK(whole_units(3, cut, none, true, true, true) == whole_units(3, cut, none, true, true));
}

TEST_CASE(
    "with --offload gradients leave by unit, by micro-batch or by window: 2 M + 2, 4 + 2, 2 + 2") {
    options o = of(1, 0, "", 4);
    CHECK(departure_of(o) == departure::never);
    o.offload = "host";
    CHECK(departure_of(o) == departure::by_unit);
    CHECK(departure_of([&] {
              o.ranks = 2;
              return o;
          }()) == departure::by_window); // once
    CHECK(departure_of([&] {
              o.zero = 2;
              return o;
          }()) == departure::by_micro); // every
    CHECK(departure_of([&] {
              o.micro_batches = 1;
              return o;
          }()) == departure::by_window);

    const strategy_sizes n{100, 100, 100, 100};
    const auto bytes = [&](departure d, int M) {
        const moved m = planned_moves(d, n, 2, M, {10, 10, 0});
        return double(m.out + m.in) / 1000; // a parameter and step
    };
    CHECK(bytes(departure::by_unit, 1) == 2 + 2);
    CHECK(bytes(departure::by_unit, 4) == 2 * 4 + 2);
    CHECK(bytes(departure::by_micro, 4) == 2 * 4 + 2);
    CHECK(bytes(departure::by_window, 4) == 4 + 2);
    CHECK(bytes(departure::by_window, 1) == 2 + 2);
    CHECK(bytes(departure::never, 4) == 0);
    CHECK(planned_moves(departure::by_unit, n, 2, 4, {10, 9, 0}).in == 2 * 100 * 9); // one skipped
    // weights in files: twice in each micro-batch, in steps that are skipped, too; 4 M + 2 M
    CHECK(planned_fetches(n, 30, 2, 4, {10, 9, 0}) == 2 * 100 * 2 * 4 * 10);
    CHECK(planned_fetches(n, 30, 2, 4, {10, 9, 3}) == 2 * (100 * 2 * 4 * 10 - 3 * 30));
}

TEST_CASE("what moves out is held elsewhere, and not twice") {
    memory_plan p;
    p.bytes.at(kind::weights) = 2000, p.bytes.at(kind::grads) = 2000, p.bytes.at(kind::sums) = 4000;
    p.bytes.at(kind::master) = 4000, p.bytes.at(kind::moments) = 8000;
    const strategy_sizes n{1000, 1000, 1000, 1000};
    options o = of(1, 0, "", 4);
    o.offload = "host";
    for (const bool files : {false, true}) {
        memory_plan q = p;
        move_out(q, {departure::by_unit, files, 2, 2, n, rooms_of(o, n), 600, 700});
        CHECK(q.total() == 2000 + 2 * 700);
        CHECK(q.bytes.at(kind::sums, place::host) == 4000);
        CHECK(q.bytes.at(kind::grads, place::host) == 0); // they go into the sums
        const place states = files ? place::file : place::host;
        CHECK(q.bytes.at(kind::master, states) + q.bytes.at(kind::moments, states) == 12000);
        CHECK(q.total(place::file) == (files ? 12000 : 0));
        // two parts of weights, a chunk of gradients; files' three buffers of 3 x 600 numbers
        CHECK(q.total(place::host) ==
              4000 + 2 * 2 * 600 + 2 * 65536 + (files ? 3 * (2 * 4096 + 4096) : 12000));
    }
}

TEST_CASE("... weights, too, in stage 3 with files, and all gradients") {
    memory_plan p;
    p.bytes.at(kind::comm) = 500;   // units that are gathered
    const std::size_t big = 300000; // elements of a shard: more than states are updated at once
    const strategy_sizes n{0, big + 10, 0, big}; // of gradients, with padding
    options o = of(1, 3, "once", 1);
    CHECK(reduces_once(o));
    o.offload = "host"; // as ZeRO-Offload
    CHECK_FALSE(weights_in_files(o));
    CHECK(departure_of(o) == departure::by_window);
    o.offload = "file";
    CHECK(weights_in_files(o));
    CHECK(departure_of(o) == departure::by_micro);
    const moving_out m{departure_of(o), true, 2, 2, n, rooms_of(o, n), big, 0, true};
    move_out(p, m);
    CHECK(p.total() == 500);
    CHECK(p.total(place::file) == (2 + 12) * big);
    const auto record = [](std::size_t bytes) { return (128 + bytes + 4095) / 4096 * 4096; };
    CHECK(p.bytes.at(kind::sums, place::host) == 4 * (big + 10));
    CHECK(p.bytes.at(kind::temp, place::host) ==
          2 * 65536 + 3 * (record(12 << 18) + 4096) + 3 * (record(2 * big) + 4096));
    CHECK(p.total(place::host) ==
          p.bytes.at(kind::sums, place::host) + p.bytes.at(kind::temp, place::host));
    CHECK(planned_moves(departure::by_micro, n, 2, 1, {10, 10, 0}).out == 10 * 2 * (big + 10));
}

TEST_CASE("rooms for gradients: zero2 and zero3 keep no shard of a micro-batch that leaves") {
    const strategy_sizes n{1000, 400, 300, 250}; // weights, micro, sum, owned
    const auto rooms = [&](int ranks, int zero, const char* reduce, int micros) {
        options o = of(ranks, zero, reduce, micros);
        o.offload = "host";
        const gradient_rooms r = rooms_of(o, n);
        return std::vector<std::size_t>{r.micro, r.sum, r.host_micro, r.host_sum};
    };
    using v = std::vector<std::size_t>;
    CHECK(rooms(1, 0, "", 1) == v{0, 0, 400, 300}); // n.sum is 0 where the window is one
    CHECK(rooms(1, 0, "", 2) == v{0, 0, 0, 300});
    CHECK(rooms(3, 1, "every", 2) == v{400, 0, 0, 300});
    CHECK(rooms(3, 2, "every", 2) == v{0, 0, 0, 300});
    CHECK(rooms(1, 3, "every", 2) == v{400, 0, 0, 300});
    CHECK(rooms(3, 3, "every", 1) == v{400, 300, 250, 0});
    CHECK(rooms(3, 0, "once", 2) == v{400, 300, 0, 250});
}
