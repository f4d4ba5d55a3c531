// SPDX-License-Identifier: MIT
#include "mpt/comm/meeting.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

using namespace mpt;

namespace {

std::vector<int> all(int n) {
    std::vector<int> names(static_cast<std::size_t>(n));
    std::iota(names.begin(), names.end(), 0);
    return names;
}
// body(rank) on n threads; what each has thrown.
template <class Body>
std::vector<std::string> each(int n, run_state& run, Body body) {
    std::vector<std::string> said(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r)
        threads.emplace_back([&, r] {
            said[std::size_t(r)] = rig::refusal([&] { body(r); });
            run.leave(r, said[std::size_t(r)] == "nothing" ? "" : said[std::size_t(r)]);
        });
    for (std::thread& t : threads) t.join();
    return said;
}
collective numbers(const int* in) { return {verb::all_gather, element::int32, in, nullptr, 1}; }

} // namespace

TEST_CASE("while they are together each reads what the others show") {
    for (const int n : {1, 2, 5, 16}) {
        const auto run = std::make_shared<run_state>(n, 60);
        meeting m(run, all(n));
        std::atomic<int> wrong = 0;
        const auto said = each(n, *run, [&](int rank) {
            int mine = 0;
            for (int round = 0; round < 200; ++round) {
                mine = round * 100 + rank; // may change again: all have read it
                const meeting::together now = m.meet(rank, numbers(&mine));
                for (int r = 0; r < n; ++r)
                    if (*static_cast<const int*>(now.call(r).in) != round * 100 + r) ++wrong;
            }
        });
        CHECK(wrong == 0);
        for (const std::string& s : said) CHECK(s == "nothing");
    }
}

TEST_CASE("whoever calls something else is seen, in whatever it differs") {
    const collective same{verb::broadcast, element::fp32, nullptr, nullptr, 7, 0};
    std::vector<collective> others(4, same);
    others[0].what = verb::all_reduce;
    others[1].type = element::fp16;
    others[2].count = 8;
    others[3].peer = 1;
    const auto said_of = [&](const collective& other) {
        const auto run = std::make_shared<run_state>(3, 60);
        meeting m(run, all(3));
        const auto said = each(
            3, *run, [&](int rank) { static_cast<void>(m.meet(rank, rank == 1 ? other : same)); });
        for (const std::string& s : said) CHECK((s == "nothing") == (said[0] == "nothing"));
        return run->failed();
    };
    CHECK(said_of(same) == ""); // sabotage: who calls the same is not refused
    const char* const words[] = {
        "all_reduce of 7 fp32 from rank 0", "broadcast of 7 fp16 from rank 0",
        "broadcast of 8 fp32 from rank 0", "broadcast of 7 fp32 from rank 1"};
    for (std::size_t i = 0; i < others.size(); ++i)
        CHECK(rig::says(said_of(others[i]),
                        join("collective 1: rank 0 calls broadcast of 7 fp32 from rank 0, rank 1 ",
                             words[i], "; all must call the same, in the same order")));
}

TEST_CASE("a group says whose collectives it counts") {
    const auto run = std::make_shared<run_state>(4, 0.05);
    meeting m(run, {3, 1}); // rank 0 of it is rank 3 of the run
    const int x = 0;
    CHECK(rig::refusal([&] { static_cast<void>(m.meet(0, numbers(&x))); }) ==
          "rank 3: all_gather, collective 1 of ranks 3, 1: waited 0.05 s for rank 1, which "
          "computes or is stuck after 0 collectives; if ranks are only slow, raise MPT_TIMEOUT_S");
}
