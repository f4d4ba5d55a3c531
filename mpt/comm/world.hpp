// SPDX-License-Identifier: MIT
/// @file world.hpp
/// Ranks as threads of one process.                                        tier 2, needs:
/// comm/communicator.hpp comm/thread_rank.hpp comm/run_state.hpp comm/timeout.hpp
///
/// Idea     run_ranks(n, body) starts n threads, gives each a communicator, and returns when all
///          have ended. Where one ends by an error, leaves early, or is missed at a verb until the
///          timeout, all others end at their next verb, and the first error is thrown here.
/// Costs    a thread a rank
/// Breaks   ranks that share a variable: on a cluster they could not. Pass data by verbs alone.
///          A rank that computes for ever, or waits for what is no verb: no thread can be ended
///          from outside without harm. The others end in time, and `stuck` is told, who can print
///          it and end the process; run_ranks itself cannot return, since that rank may use
///          whatever its caller would free
/// See      thread_rank.hpp (the verbs), run_state.hpp, tests/comm/world_test.cpp,
///          tests/comm/faults_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp" // communicator
#include "mpt/comm/run_state.hpp"    // run_state
#include "mpt/comm/thread_rank.hpp"  // thread_rank, thread_group
#include "mpt/comm/timeout.hpp"      // timeout_seconds

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace mpt {

/// body(communicator&) on n threads, each a rank; one rank has the caller's. Throws the first error
/// with its rank in front, also where the ranks have caught theirs: not all did what all were to
/// do. An exception that is none of std's, or of a rank that is alone, is thrown as it is.
/// stuck(text): a rank goes on, `timeout` seconds after the run has failed; it must not throw.
template <class Body>
void run_ranks(int n, Body body, double timeout = timeout_seconds(),
               const std::function<void(const std::string&)>& stuck = nullptr) {
    const auto run = std::make_shared<run_state>(n, timeout);
    std::vector<int> all(static_cast<std::size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    const auto group = std::make_shared<thread_group>(run, all);
    std::vector<std::exception_ptr> thrown(all.size());
    const auto live = [&](int rank) {
        std::string why;
        {
            thread_rank comm(group, rank);
            try {
                body(static_cast<communicator&>(comm));
            } catch (const std::exception& e) {
                thrown[std::size_t(rank)] = std::current_exception();
                why = *e.what() ? e.what() : "an exception without a word";
            } catch (...) {
                thrown[std::size_t(rank)] = std::current_exception();
                why = "an exception that is none of std's";
            }
            if (!why.empty()) run->leave(rank, why);
        } // what it has started comes to its end
        if (why.empty()) run->leave(rank, why);
    };
    if (n == 1) {
        live(0);
    } else {
        std::vector<std::thread> threads;
        for (int rank = 0; rank < n; ++rank) {
            try {
                threads.emplace_back(live, rank);
            } catch (const std::system_error& e) {
                run->leave(rank, join("there is no thread for it (", e.what(), ")"));
            }
        }
        run->await_end(stuck);
        for (std::thread& t : threads) t.join();
    }
    if (run->first() < 0) return;
    if (const std::exception_ptr cause = thrown[std::size_t(run->first())]) {
        try {
            std::rethrow_exception(cause);
        } catch (const std::exception&) {
            if (n == 1) throw;
        } // and one of another kind goes on as it is
    }
    throw error(run->failed());
}

} // namespace mpt
