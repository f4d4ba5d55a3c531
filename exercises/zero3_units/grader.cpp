// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/ranks.hpp" // on_ranks

using namespace grade;

namespace {

float weight(int unit, int rank, std::size_t i) { return float(100 * unit + 10 * rank) + float(i); }
std::vector<std::vector<float>> shards(int rank, int count, std::size_t n) {
    std::vector<std::vector<float>> all;
    for (int u = 0; u < count; ++u) {
        all.emplace_back();
        for (std::size_t i = 0; i < n; ++i) all.back().push_back(weight(u, rank, i));
    }
    return all;
}
void whole(std::span<const float> w, int unit, int ranks, std::size_t n) {
    equals(mpt::join("elements of unit ", unit), w.size(), n * std::size_t(ranks),
           "all shards of it");
    for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i)
            equals(mpt::join("unit ", unit, ", element ", i, " of rank ", r, "'s shard"),
                   w[std::size_t(r) * n + i], weight(unit, r, i), "shards in rank order");
}

} // namespace

PART("a unit is whole while it is acquired", 4) {
    for (const int ranks : {1, 2, 3, 4, 7})
        on_ranks(ranks, [&](mpt::communicator& comm) {
            auto mine = shards(comm.rank(), 3, 5);
            room memory;
            units u(comm, mine, memory);
            for (const int unit : {0, 2, 1, 0}) {
                whole(u.acquire(unit), unit, ranks, 5);
                u.release(unit);
            }
        });
}
PART("only what is in use is whole", 4) {
    on_ranks(3, [&](mpt::communicator& comm) {
        auto mine = shards(comm.rank(), 4, 5);
        room memory;
        units u(comm, mine, memory);
        for (int unit = 0; unit < 4; ++unit) {
            u.acquire(unit);
            u.release(unit);
        }
        equals("elements held after all releases", memory.held, std::size_t(0),
               "everything is given back");
        equals("elements held at most, a unit at a time", memory.most, std::size_t(15),
               "one unit, not four");
        u.acquire(0), u.acquire(1);
        equals("elements held with two units acquired", memory.held, std::size_t(30), "both");
        u.release(0), u.release(1);
        equals("gathers", comm.sent.of(mpt::verb::all_gather).calls, std::size_t(6),
               "one an acquire");
    });
}
PART("acquired twice: gathered once, and there until the last release", 2) {
    on_ranks(2, [&](mpt::communicator& comm) {
        auto mine = shards(comm.rank(), 1, 5);
        room memory;
        units u(comm, mine, memory);
        u.acquire(0);
        const std::span<const float> again = u.acquire(0);
        equals("gathers of a unit that is acquired twice",
               comm.sent.of(mpt::verb::all_gather).calls, std::size_t(1), "it is there already");
        u.release(0);
        equals("elements held after one of two releases", memory.held, std::size_t(10),
               "somebody uses it still");
        whole(again, 0, 2, 5);
        u.release(0);
        equals("elements held after both", memory.held, std::size_t(0),
               "the last one gives it back");
        refuses("a third release", [&] { u.release(0); }, "not acquired", "it is there no more");
    });
}
PART("an update is seen by the next acquire", 2) {
    on_ranks(2, [&](mpt::communicator& comm) {
        auto mine = shards(comm.rank(), 1, 3);
        room memory;
        units u(comm, mine, memory);
        u.acquire(0);
        u.release(0);
        for (float& w : mine[0]) w = -1;
        for (const float w : u.acquire(0))
            equals("a weight after the update", w, -1.0f, "old weights are not kept");
        u.release(0);
    });
}
