// SPDX-License-Identifier: MIT
/// @file world.hpp
/// Ranks as threads of one process.                                        tier 2, needs:
/// comm/communicator.hpp comm/meeting.hpp comm/progress.hpp comm/rank_order_sum.hpp
///
/// Idea     A rank that calls a verb shows the others its buffer and waits until all have come. In
///          a reduce_scatter each then sums its own part out of everybody's buffers (it is the
///          owner), in an all_gather each copies the others' parts; all wait again before a buffer
///          may change. An all_reduce is the one, then the other: every element travels twice.
/// Formula  the sums of rank_order_sum.hpp; of n elements rank r owns [r c, (r + 1) c) with
///          c = n / N rounded up
/// Costs    no copies beside the messages; three meetings an all_reduce, two of each other verb
/// Breaks   ranks that share a variable: on a cluster they could not. Pass data by verbs alone
/// See      communicator.hpp, meeting.hpp (deadlines, who is missing), tests/comm/world_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator, collective
#include "mpt/comm/meeting.hpp"        // meeting, run_state
#include "mpt/comm/progress.hpp"       // progress
#include "mpt/comm/rank_order_sum.hpp" // sum_in_rank_order

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace mpt {

/// One of the threads. Its verbs are called by that thread alone.
class thread_rank : public communicator {
public:
    thread_rank(std::shared_ptr<meeting> of, int rank)
        : communicator(rank, of->size()), of_(std::move(of)) {
        of_->member(rank, this->sent);
    }

    std::vector<double> gather(std::span<const double> mine) override {
        std::vector<double> all(mine.size() * std::size_t(size()));
        run({verb::agree, element::fp64, mine.data(), all.data(), mine.size()});
        return all;
    }

    std::unique_ptr<communicator> split(int color, int key) override {
        const double mine[] = {double(color), double(key)};
        const std::vector<double> said = gather(mine);
        std::vector<int> chosen; // ranks of this color
        for (int r = 0; r < size(); ++r)
            if (said[2 * std::size_t(r)] == color) chosen.push_back(r);
        std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
            return said[2 * std::size_t(a) + 1] < said[2 * std::size_t(b) + 1];
        });
        // Every rank offers a meeting; that of the first of its color is taken.
        const auto offer = std::make_shared<meeting>(*of_, chosen);
        const std::shared_ptr<meeting> taken = of_->exchange(rank(), offer, chosen.front());
        if (color < 0) return nullptr;
        const auto me = std::find(chosen.begin(), chosen.end(), rank());
        return std::make_unique<thread_rank>(taken, int(me - chosen.begin()));
    }

protected:
    handle start(const collective& c) override {
        if (c.what == verb::send) {
            sent.call(c.what, c.type);
            const auto letter = of_->post(rank(), c);
            return handle([this, letter] { of_->await_taken(rank(), letter); },
                          [this, letter] { of_->withdraw(rank(), letter); });
        }
        if (c.what == verb::recv) {
            sent.call(c.what, c.type);
            return handle([this, c] { of_->take(rank(), c); });
        }
        return progress_.start([this, c] { perform(c); }, [this] { of_->end(rank()); });
    }
    void run(const collective& c) override {
        progress_.run([&] { perform(c); });
    }

private:
    void perform(const collective& c) {
        range bar(seen, lane::comm, to_string(c.what));
        bar.args = join("\"elements\":", c.count, ",\"type\":\"", to_string(c.type), '"');
        sent.call(c.what, c.type);
        of_->meet(rank(), c);
        switch (c.what) {
        case verb::all_reduce:
            sum_part(c, slice(c.count, rank()), static_cast<std::byte*>(c.out));
            of_->pass(rank());
            for (int r = 0; r < size(); ++r)
                if (r != rank()) copy(c, r, slice(c.count, r), slice(c.count, r).begin);
            break;
        case verb::reduce_scatter:
            sum_part(c, {c.count * std::size_t(rank()), c.count},
                     static_cast<std::byte*>(c.out) -
                         c.count * std::size_t(rank()) * bytes_of(c.type));
            break;
        case verb::agree:
        case verb::all_gather:
            for (int r = 0; r < size(); ++r) copy(c, r, {0, c.count}, c.count * std::size_t(r));
            break;
        case verb::broadcast:
            if (c.peer != rank()) copy(c, c.peer, {0, c.count}, 0);
            break;
        case verb::all_to_all:
            for (int r = 0; r < size(); ++r)
                copy(c, r, {c.count * std::size_t(rank()), c.count}, c.count * std::size_t(r));
            break;
        default:
            break; // a barrier has nothing to move
        }
        of_->pass(rank());
    }

    struct part {
        std::size_t begin, size; // elements
    };
    part slice(std::size_t n, int r) const { // of n elements, those that rank r owns
        const std::size_t c = (n + std::size_t(size()) - 1) / std::size_t(size());
        const std::size_t begin = std::min(n, c * std::size_t(r));
        return {begin, std::min(n, begin + c) - begin};
    }

    // out[p.begin ...] = the sum of everybody's in[p.begin ...].
    void sum_part(const collective& c, part p, std::byte* out) {
        const std::size_t at = p.begin * bytes_of(c.type);
        std::vector<const void*> from;
        for (int r = 0; r < size(); ++r) {
            from.push_back(static_cast<const std::byte*>(of_->posted(r).in) + at);
            if (r != rank()) of_->book(r).message(c.what, c.type, p.size);
        }
        sum_in_rank_order(c.type, from, out + at, p.size);
    }
    // Elements `from` of rank r's buffer, to element `to` of mine.
    void copy(const collective& c, int r, part from, std::size_t to) {
        const std::size_t one = bytes_of(c.type);
        const void* const source =
            static_cast<const std::byte*>(of_->posted(r).in) + from.begin * one;
        std::byte* const target = static_cast<std::byte*>(c.out) + to * one;
        if (r != rank()) of_->book(r).message(c.what, c.type, from.size);
        if (from.size > 0 && source != target) std::memcpy(target, source, from.size * one);
    }

    std::shared_ptr<meeting> of_;
    progress progress_;
};

/// body(communicator&) on n threads, each a rank. Where one throws, all others end at their next
/// verb, and the first one's error is thrown here with its number in front. Returns after all.
template <class Body>
void run_ranks(int n, Body body, double timeout = timeout_seconds()) {
    check(n >= 1, "ranks: ", n, ", wanted 1 or more");
    const auto state = std::make_shared<run_state>(n, timeout);
    const auto of = std::make_shared<meeting>(state);
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(n));
    const auto live = [&](int rank) {
        thread_rank comm(of, rank);
        try {
            body(static_cast<communicator&>(comm));
            state->leave(rank, "");
        } catch (const std::exception& e) {
            thrown[std::size_t(rank)] = std::current_exception();
            state->leave(rank, e.what());
        } catch (...) {
            thrown[std::size_t(rank)] = std::current_exception();
            state->leave(rank, "something that is no std::exception");
        }
    };
    std::vector<std::thread> threads;
    for (int rank = 1; rank < n; ++rank) threads.emplace_back(live, rank);
    live(0);
    for (std::thread& t : threads) t.join();
    if (state->first() < 0) return;
    const std::exception_ptr cause = thrown[std::size_t(state->first())];
    if (n == 1) std::rethrow_exception(cause);
    try {
        std::rethrow_exception(cause);
    } catch (const std::exception& e) {
        throw error(join("rank ", state->first(), ": ", e.what()));
    } // and what else was thrown as it is
}

} // namespace mpt
