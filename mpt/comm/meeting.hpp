// SPDX-License-Identifier: MIT
/// @file meeting.hpp
/// Where the threads of a group wait for each other, and no longer than a deadline.  tier 2, needs:
/// comm/communicator.hpp comm/timeout.hpp
///
/// Idea     meet: each rank posts what it calls and waits until all have; then they compare. pass:
///          each says that it is done with the others' buffers and waits until all are. A rank
///          that ends, early or by an error, is noticed by all who wait for it.
/// Costs    one lock and one condition variable for the whole run: waiting ranks sleep
/// Breaks   std::barrier, which cannot give up: with it a lost rank is a silent hang
/// See      world.hpp, timeout.hpp, tests/comm/world_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp" // collective, traffic
#include "mpt/comm/timeout.hpp"      // timeout_seconds

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

/// What all ranks of a run share.
class run_state {
public:
    run_state(int ranks, double timeout) : gone_(std::size_t(ranks)), timeout_(timeout) {}

    /// Rank `rank` will call nothing more; `why`: the error that ended it, or nothing.
    void leave(int rank, const std::string& why) {
        const std::lock_guard hold(lock);
        gone_[std::size_t(rank)] = why.empty() ? "has left" : "ended: " + why;
        if (!why.empty()) fail(rank, join("rank ", rank, " ended: ", why));
        changed.notify_all();
    }
    int ranks() const { return int(gone_.size()); }
    /// The rank whose error came first; -1: none.
    int first() const { return first_; }
    double timeout() const { return timeout_; }

    // Under `lock`:
    void fail(int rank, const std::string& why) {
        if (first_ >= 0) return;
        first_ = rank;
        failed_ = why;
        changed.notify_all();
    }
    const std::string& failed() const { return failed_; } // why all end; empty: they go on
    const std::string& gone(int r) const { return gone_[std::size_t(r)]; } // empty: it is there

    std::mutex lock;
    std::condition_variable changed;

private:
    std::vector<std::string> gone_;
    std::string failed_;
    int first_ = -1;
    double timeout_;
};

class meeting {
public:
    /// Of all ranks of the run.
    explicit meeting(std::shared_ptr<run_state> run) : run_(std::move(run)) {
        names_.resize(std::size_t(run_->ranks()));
        std::iota(names_.begin(), names_.end(), 0);
        seats_.resize(names_.size());
    }
    /// Of some of the ranks of another meeting.
    meeting(const meeting& above, const std::vector<int>& chosen) : run_(above.run_) {
        for (const int r : chosen) names_.push_back(above.names_[std::size_t(r)]);
        seats_.resize(names_.size());
    }

    int size() const { return int(names_.size()); }
    void member(int rank, traffic& book) { seats_[std::size_t(rank)].book = &book; }
    traffic& book(int rank) { return *seats_[std::size_t(rank)].book; }
    const collective& posted(int rank) const { return seats_[std::size_t(rank)].call; }

    /// All ranks have called the same as this one, and their buffers may be read until pass().
    void meet(int rank, const collective& c) {
        std::unique_lock hold(run_->lock);
        seat& mine = seats_[std::size_t(rank)];
        mine.call = c;
        ++mine.number;
        require_going(rank);
        mine.here = true;
        if (++arrived_ == size()) {
            compare();
            open();
            return;
        }
        wait_for_all(hold, rank, true);
    }
    /// All ranks have come here, and buffers may change. What has begun is ended: others read mine.
    void pass(int rank) {
        std::unique_lock hold(run_->lock);
        seats_[std::size_t(rank)].here = true;
        if (++arrived_ == size()) return open();
        wait_for_all(hold, rank, false);
    }

    /// Every rank brings something; returns what rank `whose` of this group has brought.
    template <class Thing>
    std::shared_ptr<Thing> exchange(int rank, std::shared_ptr<Thing> mine, int whose) {
        const std::shared_ptr<void> shown = mine;
        meet(rank, {verb::agree, element::byte, &shown, nullptr, 1});
        const auto found = *static_cast<const std::shared_ptr<void>*>(posted(whose).in);
        pass(rank);
        return std::static_pointer_cast<Thing>(found);
    }

    // ---- between two ranks -------------------------------------------------------------------
    struct letter {
        collective call;
        bool taking = false, taken = false;
    };
    std::shared_ptr<letter> post(int rank, const collective& c) {
        const std::lock_guard hold(run_->lock);
        require_going(rank);
        auto l = std::make_shared<letter>(letter{c});
        boxes_[{rank, c.peer}].push_back(l);
        run_->changed.notify_all();
        return l;
    }
    void await_taken(int rank, const std::shared_ptr<letter>& l) {
        std::unique_lock hold(run_->lock);
        wait(hold, rank, l->call, l->call.peer, [&] { return l->taken; });
    }
    /// The sender ends before the letter was taken.
    void withdraw(int rank, const std::shared_ptr<letter>& l) {
        std::unique_lock hold(run_->lock);
        run_->fail(names_[std::size_t(rank)], abandoned(rank));
        std::erase(boxes_[{rank, l->call.peer}], l);
        run_->changed.wait(hold, [&] { return !l->taking; });
    }
    /// The next letter of c.peer, copied to c.out.
    void take(int rank, const collective& c) {
        std::unique_lock hold(run_->lock);
        auto& box = boxes_[{c.peer, rank}];
        wait(hold, rank, c, c.peer, [&] { return !box.empty(); });
        const std::shared_ptr<letter> l = box.front();
        if (l->call.count != c.count || l->call.type != c.type)
            fault(rank, join("recv of ", c.count, ' ', to_string(c.type), " from rank ",
                             name(c.peer), ", who sends ", l->call.count, ' ',
                             to_string(l->call.type), "; both must say the same"));
        box.pop_front();
        l->taking = true;
        hold.unlock();
        if (c.count > 0) std::memcpy(c.out, l->call.in, c.count * bytes_of(c.type));
        book(c.peer).message(verb::send, c.type, c.count);
        hold.lock();
        l->taking = false;
        l->taken = true;
        run_->changed.notify_all();
    }

    /// Rank `rank` drops a collective it has started: it is about to end.
    void end(int rank) {
        const std::lock_guard hold(run_->lock);
        run_->fail(names_[std::size_t(rank)], abandoned(rank));
    }

private:
    struct seat {
        collective call{};
        long number = 0;   // of this call, from 1
        bool here = false; // waits, or has come
        traffic* book = nullptr;
    };

    int name(int rank) const { return names_[std::size_t(rank)]; } // among all ranks of the run
    std::string abandoned(int rank) const {
        return join("rank ", name(rank), " ended with a collective on its way");
    }

    void open() {
        arrived_ = 0;
        ++opened_;
        for (seat& s : seats_) s.here = false;
        run_->changed.notify_all();
    }

    void require_going(int rank) {
        if (!run_->failed().empty())
            throw error(join(where(rank, seats_[std::size_t(rank)].call), ": ", run_->failed()));
    }
    [[noreturn]] void fault(int rank, const std::string& what) {
        run_->fail(name(rank), join("rank ", name(rank), " ended: ", what));
        throw error(what);
    }

    // "rank 2: all_reduce, collective 17"
    std::string where(int rank, const collective& c) const {
        const seat& s = seats_[std::size_t(rank)];
        const bool pair = c.what == verb::send || c.what == verb::recv;
        return join("rank ", name(rank), ": ", to_string(c.what),
                    pair ? join(c.what == verb::send ? " to" : " from", " rank ", name(c.peer))
                         : join(", collective ", s.number));
    }

    void wait_for_all(std::unique_lock<std::mutex>& hold, int rank, bool may_fail) {
        const long mine = opened_;
        const collective c = seats_[std::size_t(rank)].call;
        wait(
            hold, rank, c, -1, [&] { return opened_ != mine; }, may_fail);
    }

    // Until ready(), or until it is known that it never will be. whom: -1: all ranks of the group.
    template <class Ready>
    void wait(std::unique_lock<std::mutex>& hold, int rank, const collective& c, int whom,
              Ready ready, bool may_fail = true) {
        const auto until = std::chrono::steady_clock::now() +
                           std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                               std::chrono::duration<double>(run_->timeout()));
        std::string lost; // who will never come
        const auto over = [&] {
            if (ready()) return true;
            if (!may_fail) return false;
            if (!run_->failed().empty()) return true;
            for (int r = 0; r < size() && lost.empty(); ++r)
                if (r != rank && (whom < 0 ? !seats_[std::size_t(r)].here : r == whom) &&
                    !run_->gone(name(r)).empty())
                    lost = join("rank ", name(r), ' ', run_->gone(name(r)), " after ",
                                seats_[std::size_t(r)].number, " collectives");
            return !lost.empty();
        };
        const bool in_time = run_->changed.wait_until(hold, until, over);
        if (ready()) return;
        if (!run_->failed().empty()) throw error(join(where(rank, c), ": ", run_->failed()));
        if (in_time) fault(rank, join(where(rank, c), ": ", lost));
        std::string missing;
        for (int r = 0; r < size(); ++r)
            if (r != rank && (whom < 0 ? !seats_[std::size_t(r)].here : r == whom))
                missing += join(missing.empty() ? "" : ", ", "rank ", name(r), " (after ",
                                seats_[std::size_t(r)].number, " collectives)");
        fault(rank, join(where(rank, c), ": waited ", run_->timeout(), " s for ", missing,
                         "; it is stuck or slow, raise MPT_TIMEOUT_S if it is only slow"));
    }

    // Do all ranks call the same?
    void compare() {
        const collective& a = seats_[0].call;
        for (int r = 1; r < size(); ++r) {
            const collective& b = seats_[std::size_t(r)].call;
            if (a.what == b.what && a.type == b.type && a.count == b.count && a.peer == b.peer)
                continue;
            const auto said = [](const collective& c) {
                return join(to_string(c.what), " of ", c.count, ' ', to_string(c.type),
                            c.peer < 0 ? std::string() : join(" of rank ", c.peer));
            };
            fault(r, join("collective ", seats_[0].number, ": rank ", name(0), " calls ", said(a),
                          ", rank ", name(r), ' ', said(b), "; all ranks must call the same"));
        }
    }

    std::shared_ptr<run_state> run_;
    std::vector<int> names_; // of this group's ranks, among all of the run
    std::vector<seat> seats_;
    int arrived_ = 0;
    long opened_ = 0; // how often all have come
    std::map<std::pair<int, int>, std::deque<std::shared_ptr<letter>>> boxes_; // (from, to)
};

} // namespace mpt
