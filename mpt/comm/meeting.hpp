// SPDX-License-Identifier: MIT
/// @file meeting.hpp
/// Where the threads of a group come together for a collective.            tier 2, needs:
/// base/error.hpp comm/communicator.hpp comm/run_state.hpp
///
/// Idea     meet() shows the others what a rank calls and waits until all have come; the last one
///          compares. While the returned `together` lives, everybody's buffers may be read and
///          written; its end waits until all are done with mine. Nothing in between throws or
///          stops, so that this second wait needs no deadline: a rank never leaves while another
///          reads its memory.
/// Costs    two waits a collective: R ranks sleep and wake twice
/// Breaks   without the second wait a rank changes its buffer while the others still read it
/// See      world.hpp (what they do together), tests/comm/meeting_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // error, join
#include "mpt/comm/communicator.hpp" // collective, traffic
#include "mpt/comm/run_state.hpp"    // run_state

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

class meeting {
public:
    /// Of these ranks of the run.
    meeting(std::shared_ptr<run_state> run, std::vector<int> names)
        : run_(std::move(run)), names_(std::move(names)), seats_(names_.size()) {}

    int size() const { return int(names_.size()); }
    /// Whose traffic is entered where; before its first meet().
    void member(int rank, traffic& book) { seats_[std::size_t(rank)].book = &book; }

    /// All are here and have called the same.
    class [[nodiscard]] together {
    public:
        together(meeting& of, int rank) : of_(of), rank_(rank) {}
        together(const together&) = delete;
        together& operator=(const together&) = delete;
        ~together() { of_.pass(rank_); }

        const collective& call(int rank) const { return of_.seats_[std::size_t(rank)].call; }
        traffic& book(int rank) const { return *of_.seats_[std::size_t(rank)].book; }

    private:
        meeting& of_;
        int rank_;
    };
    together meet(int rank, const collective& c) {
        std::unique_lock hold(run_->lock);
        seat& mine = seats_[std::size_t(rank)];
        mine.call = c;
        ++mine.number;
        run_->require_going(name(rank), [&] { return where(rank); });
        mine.here = true;
        if (++arrived_ == size()) {
            compare(rank);
            open();
        } else {
            run_->await(
                hold, name(rank), [&, opened = opened_] { return opened_ != opened; },
                [&] { return missing(); }, [&] { return where(rank); });
        }
        return {*this, rank};
    }

    /// Rank `rank` gives up what it has started, such as "all_reduce".
    void abandon(int rank, const char* what) {
        const std::lock_guard hold(run_->lock);
        run_->abandon(name(rank), join("a started ", what));
    }

private:
    struct seat {
        collective call{};
        long number = 0;   // of this call, from 1
        bool here = false; // and waits
        traffic* book = nullptr;
    };

    void pass(int rank) {
        std::unique_lock hold(run_->lock);
        if (++arrived_ == size()) return open();
        run_->await_surely(hold, name(rank), [&, opened = opened_] { return opened_ != opened; });
    }
    void open() { // for those who wait, and anew
        arrived_ = 0;
        ++opened_;
        for (std::size_t r = 0; r < seats_.size(); ++r) {
            seats_[r].here = false;
            run_->wake(names_[r]);
        }
    }

    int name(int rank) const { return names_[std::size_t(rank)]; } // among all ranks of the run
    std::vector<absent> missing() const {
        std::vector<absent> of;
        for (std::size_t r = 0; r < seats_.size(); ++r)
            if (!seats_[r].here) of.push_back({names_[r], seats_[r].number, "collective"});
        return of;
    }
    // "all_reduce, collective 17", of a part of the ranks "all_reduce, collective 3 of ranks 0, 2"
    std::string where(int rank) const {
        const seat& s = seats_[std::size_t(rank)];
        std::string text = join(to_string(s.call.what), ", collective ", s.number);
        if (size() < run_->ranks())
            for (int r = 0; r < size(); ++r) text += join(r == 0 ? " of ranks " : ", ", name(r));
        return text;
    }

    // Do all ranks call the same? Rank `last` looks.
    void compare(int last) {
        const auto said = [](const collective& c) {
            return join(to_string(c.what), " of ", c.count, ' ', to_string(c.type),
                        c.peer < 0 ? std::string() : join(" from rank ", c.peer));
        };
        const collective& a = seats_[0].call;
        for (int r = 1; r < size(); ++r) {
            const collective& b = seats_[std::size_t(r)].call;
            if (a.what == b.what && a.type == b.type && a.count == b.count && a.peer == b.peer)
                continue;
            run_->fail(name(last), join("rank ", name(last), ": ", where(last), ": rank ", name(0),
                                        " calls ", said(a), ", rank ", name(r), ' ', said(b),
                                        "; all must call the same, in the same order"));
            throw error(run_->failed());
        }
    }

    std::shared_ptr<run_state> run_;
    std::vector<int> names_; // of this group's ranks, among all of the run
    std::vector<seat> seats_;
    int arrived_ = 0;
    long opened_ = 0; // how often all have come
};

} // namespace mpt
