// SPDX-License-Identifier: MIT
/// @file mailbox.hpp
/// Messages between two threads: send meets recv.                          tier 2, needs:
/// base/error.hpp comm/communicator.hpp comm/run_state.hpp
///
/// Idea     A send and a recv wait in the box of their pair until the other comes. Whoever is
///          second copies from buffer to buffer, with nothing between, and tells the first. The
///          k-th send of a pair meets the k-th recv, in whatever order they are waited for.
/// Costs    one copy, two locks a message
/// Breaks   a rank that ends while its message is on its way: it takes the message back first, and
///          waits where the other has begun to copy
/// See      world.hpp, meeting.hpp (the same for all ranks of a group), tests/comm/mailbox_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // error, join
#include "mpt/comm/communicator.hpp" // collective, traffic
#include "mpt/comm/run_state.hpp"    // run_state

#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mpt {

class mailbox {
public:
    /// Between these ranks of the run.
    mailbox(std::shared_ptr<run_state> run, std::vector<int> names)
        : run_(std::move(run)), names_(std::move(names)) {}

    enum class state { waiting, moving, done };
    struct letter {
        collective call; // of the sender or of the receiver
        int rank;        // whose call it is
        traffic* book;   // its own
        long number = 0; // of the pair's sends, or recvs, from 1
        state is = state::waiting;
    };
    using ticket = std::shared_ptr<letter>;

    /// Rank `rank` calls send or recv. Returns at once, or after the copy where it is second.
    ticket post(int rank, const collective& c, traffic& book) {
        const bool sends = c.what == verb::send;
        const auto mine = std::make_shared<letter>(letter{c, rank, &book});
        std::unique_lock hold(run_->lock);
        box& b = box_of(*mine);
        mine->number = sends ? ++b.sent : ++b.received;
        run_->require_going(name(rank), [&] { return where(*mine); });
        if (b.waiting.empty() || b.waiting.front()->call.what == c.what) {
            b.waiting.push_back(mine);
            return mine;
        }
        const ticket other = b.waiting.front();
        const letter &from = sends ? *mine : *other, &to = sends ? *other : *mine;
        compare(rank, from, to);
        b.waiting.pop_front();
        mine->is = other->is = state::moving;
        hold.unlock();
        if (c.count > 0) std::memcpy(to.call.out, from.call.in, c.count * bytes_of(c.type));
        from.book->message(verb::send, c.type, c.count);
        hold.lock();
        mine->is = other->is = state::done;
        run_->wake(name(other->rank));
        return mine;
    }

    /// Until the message has arrived.
    void wait(const ticket& t) {
        std::unique_lock hold(run_->lock);
        try {
            run_->await(
                hold, name(t->rank), [&] { return t->is == state::done; },
                [&] { return std::vector{other(*t)}; }, [&] { return where(*t); });
        } catch (...) { // the buffer may be freed next
            take_back(hold, t);
            throw;
        }
    }

    /// Its rank is about to end: nobody shall touch the buffer any more, nor wait for it.
    void drop(const ticket& t) {
        std::unique_lock hold(run_->lock);
        run_->abandon(name(t->rank), where(*t));
        take_back(hold, t);
    }
    /// The same for all that rank `rank` still has here.
    void leave(int rank) {
        std::vector<ticket> mine;
        {
            const std::lock_guard hold(run_->lock);
            for (const auto& [pair, b] : boxes_)
                for (const ticket& t : b.waiting)
                    if (t->rank == rank) mine.push_back(t);
        }
        for (const ticket& t : mine) drop(t);
    }

private:
    struct box {
        std::deque<ticket> waiting; // sends, or recvs
        long sent = 0, received = 0;
    };
    box& box_of(const letter& l) {
        return l.call.what == verb::send ? boxes_[{l.rank, l.call.peer}]
                                         : boxes_[{l.call.peer, l.rank}];
    }
    absent other(const letter& l) {
        const box& b = box_of(l);
        const bool sends = l.call.what == verb::send;
        return {name(l.call.peer), sends ? b.received : b.sent, sends ? "recv" : "send"};
    }
    void take_back(std::unique_lock<std::mutex>& hold, const ticket& t) {
        std::erase(box_of(*t).waiting, t);
        run_->await_surely(hold, name(t->rank), [&] { return t->is != state::moving; });
    }

    void compare(int rank, const letter& from, const letter& to) {
        if (from.call.count == to.call.count && from.call.type == to.call.type) return;
        const auto said = [](const letter& l) {
            return join(l.call.count, ' ', to_string(l.call.type));
        };
        run_->fail(name(rank),
                   join("rank ", name(rank), ": ", where(rank == from.rank ? from : to), ": rank ",
                        name(from.rank), " sends ", said(from), ", rank ", name(to.rank),
                        " receives ", said(to), "; both must say the same"));
        throw error(run_->failed());
    }

    int name(int rank) const { return names_[std::size_t(rank)]; } // among all ranks of the run
    static const char* toward(verb v) { return v == verb::send ? " to rank " : " from rank "; }
    std::string where(const letter& l) const { // "send to rank 2, message 3"
        return join(to_string(l.call.what), toward(l.call.what), name(l.call.peer), ", message ",
                    l.number);
    }

    std::shared_ptr<run_state> run_;
    std::vector<int> names_;
    std::map<std::pair<int, int>, box> boxes_; // (from, to)
};

} // namespace mpt
