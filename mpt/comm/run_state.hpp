// SPDX-License-Identifier: MIT
/// @file run_state.hpp
/// What the threads of one run share: who is gone, why it fails, how to wait. tier 2, needs:
/// base/error.hpp
///
/// Idea     One lock, and for each rank a condition variable on which its threads sleep. A wait
///          ends when what was waited for is there, and otherwise with an error: when the run has
///          failed, when someone who is waited for has gone, or at the deadline. The first failure
///          is the run's; all others end by it, at their next verb at the latest.
/// Costs    a waiting rank sleeps and takes nothing from those that compute
/// Breaks   std::barrier, which cannot give up: with it a lost rank is a silent hang
/// See      meeting.hpp, mailbox.hpp (who waits so), timeout.hpp, tests/comm/run_state_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check, error, join

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace mpt {

/// Somebody who is waited for, and what it has done so far: 16 "collective"s.
struct absent {
    int rank; // of the run
    long done;
    const char* what;
};

class run_state {
public:
    run_state(int ranks, double timeout)
        : gone_(std::size_t(ranks)), changed_(gone_.size()), asleep_(gone_.size()),
          timeout_(timeout) {
        check(ranks >= 1, "ranks: ", ranks, ", wanted 1 or more");
        check(timeout > 0 && timeout <= 1e6, "timeout: ", timeout,
              " s, wanted seconds above 0 and up to 1e6");
    }
    int ranks() const { return int(gone_.size()); }

    /// Rank `rank` will call nothing more; `why`: the error that ended it, or nothing.
    void leave(int rank, const std::string& why) {
        const std::lock_guard hold(lock);
        if (!why.empty()) {
            fail(rank, named(rank, why));
            if (unexplained_ && first_ == rank) failed_ = named(rank, why); // now it is known
        }
        gone_[std::size_t(rank)] = true;
        ++gone_count_;
        wake_all(); // do they wait for it?
        ended_.notify_all();
    }

    /// Returns when all ranks have left. Where the run has failed and one has not left after the
    /// timeout: a thread cannot be ended from outside, so this goes on waiting, and tells `stuck`.
    void await_end(const std::function<void(const std::string&)>& stuck) {
        std::unique_lock hold(lock);
        const auto all_gone = [&] { return gone_count_ == ranks(); };
        ended_.wait(hold, [&] { return all_gone() || !failed_.empty(); });
        if (ended_.wait_until(hold, deadline(), all_gone)) return;
        std::vector<absent> running;
        for (int r = 0; r < ranks(); ++r)
            if (!gone_[std::size_t(r)]) running.push_back({r, 0, nullptr});
        const std::string text = join(list(running), " still computes or is stuck ", timeout_,
                                      " s after the run has failed (", failed_,
                                      "); a thread cannot be ended from outside, end the process");
        hold.unlock();
        if (stuck) stuck(text);
        hold.lock();
        ended_.wait(hold, all_gone);
    }

    // ---- under `lock` ------------------------------------------------------------------------
    std::mutex lock;

    /// `why` names the rank: "rank 2: cannot open x". The first counts.
    void fail(int rank, const std::string& why) {
        if (!failed_.empty()) return;
        first_ = rank;
        failed_ = why;
        wake_all();
        ended_.notify_all();
    }
    /// Rank `rank` gives up what it has started: nobody shall wait for it.
    void abandon(int rank, const std::string& where) {
        if (!failed_.empty()) return;
        unexplained_ = std::uncaught_exceptions() > 0;
        fail(rank, join("rank ", rank, ": ", where,
                        unexplained_ ? ": an exception ends the rank before wait()"
                                     : ": dropped before wait()"));
    }
    const std::string& failed() const { return failed_; } // why all end; empty: they go on
    int first() const { return first_; }                  // whose failure that was

    /// where(): "all_reduce, collective 17".
    template <class Where>
    void require_going(int rank, Where where) const {
        if (!failed_.empty()) throw error(ended_by(rank, where()));
    }
    void wake(int rank) { changed_[std::size_t(rank)].notify_all(); }

    /// Rank `rank` sleeps until ready(), which somebody makes true who then wakes it. `missing()`:
    /// those that it waits for. Throws what ended the wait; then ready() is false.
    template <class Ready, class Missing, class Where>
    void await(std::unique_lock<std::mutex>& hold, int rank, Ready ready, Missing missing,
               Where where) {
        const auto lost = [&] {
            std::vector<absent> of = missing();
            std::erase_if(of, [&](const absent& a) { return !gone_[std::size_t(a.rank)]; });
            return of;
        };
        const auto doing = [&] { return join(where(), ", for ", list(missing())); };
        const sleeper me(doing, asleep_[std::size_t(rank)]);
        const bool in_time = changed_[std::size_t(rank)].wait_until(hold, deadline(), [&] {
            return ready() || !failed_.empty() || (gone_count_ > 0 && !lost().empty());
        });
        if (ready()) return;
        require_going(rank, where);
        std::string why;
        if (in_time) {
            for (const absent& a : lost())
                why += join(why.empty() ? "" : ", ", "rank ", a.rank, " has left", after(a));
        } else {
            why = join("waited ", timeout_, " s");
            for (const absent& a : missing())
                why += join(" for rank ", a.rank, ", which ", told(a), ';');
            why += " if ranks are only slow, raise MPT_TIMEOUT_S";
        }
        fail(rank, join("rank ", rank, ": ", where(), ": ", why));
        throw error(failed_);
    }
    /// The same where nothing can end the wait but ready().
    template <class Ready>
    void await_surely(std::unique_lock<std::mutex>& hold, int rank, Ready ready) {
        changed_[std::size_t(rank)].wait(hold, ready);
    }

private:
    // Can tell what a thread waits for, as long as it does.
    class sleeper {
    public:
        template <class Doing>
        sleeper(const Doing& doing, std::vector<const sleeper*>& among)
            : doing_(&doing),
              tell_([](const void* of) { return (*static_cast<const Doing*>(of))(); }),
              among_(among) {
            among_.push_back(this);
        }
        ~sleeper() { std::erase(among_, this); }
        sleeper(const sleeper&) = delete;
        sleeper& operator=(const sleeper&) = delete;
        std::string tell() const { return tell_(doing_); }

    private:
        const void* doing_;
        std::string (*tell_)(const void*);
        std::vector<const sleeper*>& among_;
    };

    static std::string named(int rank, const std::string& why) {
        return join("rank ", rank, ": ", why);
    }
    static std::string list(const std::vector<absent>& ranks) { // "rank 0, rank 3"
        std::string text;
        for (const absent& a : ranks) text += join(text.empty() ? "" : ", ", "rank ", a.rank);
        return text;
    }
    static std::string after(const absent& a) { // " after 16 collectives"
        return a.what ? join(" after ", a.done, ' ', a.what, a.done == 1 ? "" : "s") : "";
    }
    // What a rank does meanwhile.
    std::string told(const absent& a) const {
        const auto& waits = asleep_[std::size_t(a.rank)];
        return waits.empty() ? "computes or is stuck" + after(a)
                             : "waits in " + waits.back()->tell();
    }
    std::string ended_by(int rank, const std::string& where) const {
        return join("rank ", rank, ": ", where, ": ended by ", failed_);
    }
    std::chrono::steady_clock::time_point deadline() const {
        return std::chrono::steady_clock::now() +
               std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                   std::chrono::duration<double>(timeout_));
    }
    void wake_all() {
        for (std::condition_variable& c : changed_) c.notify_all();
    }

    std::vector<bool> gone_;
    int gone_count_ = 0;
    std::string failed_;
    int first_ = -1;
    bool unexplained_ = false; // that one ends by an exception which is not known yet
    std::vector<std::condition_variable> changed_;    // by rank
    std::vector<std::vector<const sleeper*>> asleep_; // its threads that wait
    std::condition_variable ended_;                   // somebody left, or the run failed
    double timeout_;
};

} // namespace mpt
