// SPDX-License-Identifier: MIT
#include "mpt/comm/run_state.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace mpt;
using rig::refusal;

namespace {

// Rank `rank` waits for `whom` until ready; what ends the wait.
std::string waits(run_state& run, int rank, const std::vector<absent>& whom, const bool& ready) {
    return refusal([&] {
        std::unique_lock hold(run.lock);
        run.await(
            hold, rank, [&] { return ready; }, [&] { return whom; }, [] { return "a test"; });
    });
}

} // namespace

TEST_CASE("a wait ends when what was waited for is there") {
    run_state run(2, 60);
    bool ready = false;
    std::string said;
    std::thread one([&] { said = waits(run, 1, {{0, 0, nullptr}}, ready); });
    {
        const std::lock_guard hold(run.lock);
        ready = true;
        run.wake(1);
    }
    one.join();
    CHECK(said == "nothing");
    CHECK(waits(run, 0, {{1, 0, nullptr}}, ready) == "nothing"); // it was there already
    CHECK(run.first() == -1);
}

TEST_CASE("at the deadline it names who is missing, and what they do") {
    const bool never = false;
    run_state run(3, 0.05);
    CHECK(waits(run, 0, {{1, 0, "send"}, {2, 1, "collective"}}, never) ==
          "rank 0: a test: waited 0.05 s for rank 1, which computes or is stuck after 0 sends; for "
          "rank 2, which computes or is stuck after 1 collective; if ranks are only slow, raise "
          "MPT_TIMEOUT_S");
    CHECK(run.first() == 0);
    // Two that wait for each other.
    run_state pair(2, 0.2);
    std::string said[2];
    std::thread one([&] { said[1] = waits(pair, 1, {{0, 3, "send"}}, never); });
    said[0] = waits(pair, 0, {{1, 3, "send"}}, never);
    one.join();
    const int other = 1 - pair.first(); // of whom both are told
    for (const std::string& text : said)
        CHECK(rig::says(text, join("waited 0.2 s for rank ", other,
                                   ", which waits in a test, for "
                                   "rank ",
                                   1 - other, ";")));
}

TEST_CASE("one who has left, or has failed, ends the wait at once") {
    const bool never = false;
    run_state run(3, 60);
    run.leave(1, "");
    run.leave(2, "");
    CHECK(waits(run, 0, {{1, 0, "send"}, {2, 1, "collective"}}, never) ==
          "rank 0: a test: rank 1 has left after 0 sends, rank 2 has left after 1 collective");

    run_state failed(3, 60);
    std::string said;
    std::thread zero([&] { said = waits(failed, 0, {{1, 3, "send"}}, never); });
    failed.leave(2, "the disk is full");
    zero.join();
    CHECK(said == "rank 0: a test: ended by rank 2: the disk is full");
    CHECK(failed.first() == 2);
    failed.leave(1, "late"); // the first counts
    CHECK(failed.failed() == "rank 2: the disk is full");
    CHECK(refusal([&] {
              const std::lock_guard hold(failed.lock);
              failed.require_going(0, [] { return "another"; });
          }) == "rank 0: another: ended by rank 2: the disk is full");
}

TEST_CASE("sabotage: who left long ago does not end a wait for another") {
    run_state run(3, 0.05);
    run.leave(2, "");
    CHECK(rig::says(waits(run, 0, {{1, 3, "send"}}, false), "waited 0.05 s for rank 1"));
}

TEST_CASE("an exception that drops something becomes the reason when it is known") {
    run_state run(2, 60);
    try {
        struct dropped {
            run_state& run;
            ~dropped() {
                const std::lock_guard hold(run.lock);
                run.abandon(1, "a started all_reduce");
            }
        } handle{run};
        throw std::runtime_error("the disk is full");
    } catch (const std::exception& e) {
        CHECK(run.failed() ==
              "rank 1: a started all_reduce: an exception ends the rank before wait()");
        run.leave(1, e.what());
    }
    CHECK(run.failed() == "rank 1: the disk is full");
    run_state caught(2, 60); // its rank caught the exception and went on
    try {
        struct dropped {
            run_state& run;
            ~dropped() {
                const std::lock_guard hold(run.lock);
                run.abandon(1, "a started all_reduce");
            }
        } handle{caught};
        throw std::runtime_error("the disk is full");
    } catch (const std::exception&) {
        caught.leave(1, "");
    }
    CHECK(caught.failed() ==
          "rank 1: a started all_reduce: an exception ends the rank before wait()");
    run_state mistake(2, 60);
    {
        const std::lock_guard hold(mistake.lock);
        mistake.abandon(1, "a started all_reduce");
    }
    mistake.leave(1, "later");
    CHECK(mistake.failed() == "rank 1: a started all_reduce: dropped before wait()");
}
