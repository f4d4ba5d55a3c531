// SPDX-License-Identifier: MIT
/// @file thread_rank.hpp
/// The verbs among threads that see each other's memory.                   tier 2, needs:
/// comm/communicator.hpp comm/mailbox.hpp comm/meeting.hpp comm/progress.hpp
/// comm/rank_order_sum.hpp comm/run_state.hpp comm/slice.hpp
///
/// Idea     A rank that calls a verb shows the others its buffer and waits until all have come. Of
///          an all_reduce each rank owns a slice: it sums that slice out of everybody's buffers and
///          writes the sum into everybody's. Other verbs copy from the others' buffers. All wait
///          again before a buffer may change.
/// Formula  the sums of rank_order_sum.hpp, the slices of slice.hpp
/// Costs    all_reduce of n fp32: 8 N bytes an element through memory for N ranks, N reads and N
///          writes, which is the least; a ring moves 20 (N - 1)
/// Breaks   a collective's buffer that another thread of the rank uses before wait()
/// See      world.hpp (who makes them), tests/comm/world_test.cpp, bench/collectives.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator, collective
#include "mpt/comm/mailbox.hpp"        // mailbox
#include "mpt/comm/meeting.hpp"        // meeting
#include "mpt/comm/progress.hpp"       // progress
#include "mpt/comm/rank_order_sum.hpp" // sum_in_rank_order
#include "mpt/comm/run_state.hpp"      // run_state
#include "mpt/comm/slice.hpp"          // slice, slice_of

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace mpt {

/// What the threads of a communicator share.
struct thread_group {
    thread_group(std::shared_ptr<run_state> of, std::vector<int> ranks)
        : run(std::move(of)), names(std::move(ranks)), all(run, names), pairs(run, names) {}

    std::shared_ptr<run_state> run;
    std::vector<int> names; // of these ranks, among all of the run
    meeting all;
    mailbox pairs;
};

/// One of the threads. Its verbs are called by that thread alone.
class thread_rank : public communicator {
public:
    thread_rank(std::shared_ptr<thread_group> of, int rank)
        : communicator(rank, of->all.size()), of_(std::move(of)), in_(std::size_t(size())),
          out_(std::size_t(size())) {
        of_->all.member(rank, this->sent);
    }
    ~thread_rank() override { // the others must not wait for what nobody will wait for
        of_->pairs.leave(rank());
        if (progress_.pending()) of_->all.abandon(rank(), "collective");
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
        std::sort(chosen.begin(), chosen.end(), [&](int a, int b) { // by (key, rank)
            const double x = said[2 * std::size_t(a) + 1], y = said[2 * std::size_t(b) + 1];
            return x != y ? x < y : a < b;
        });
        std::vector<int> names;
        for (const int r : chosen) names.push_back(of_->names[std::size_t(r)]);
        // Every rank offers a group; that of the first of its color is taken.
        std::shared_ptr<thread_group> group = std::make_shared<thread_group>(of_->run, names);
        group = exchange(group, chosen.front());
        if (color < 0) return nullptr;
        const auto me = std::find(chosen.begin(), chosen.end(), rank());
        return std::make_unique<thread_rank>(group, int(me - chosen.begin()));
    }

protected:
    handle start(const collective& c) override {
        if (c.what == verb::send || c.what == verb::recv) {
            sent.call(c.what, c.type);
            const mailbox::ticket t = of_->pairs.post(rank(), c, sent);
            return handle([of = of_, t] { of->pairs.wait(t); },
                          [of = of_, t] { of->pairs.drop(t); });
        }
        return progress_.start(
            [this, c] { perform(c); },
            [of = of_, r = rank(), c] { of->all.abandon(r, to_string(c.what)); });
    }
    void run(const collective& c) override {
        progress_.run([&] { perform(c); });
    }

private:
    void perform(const collective& c) {
        range bar(seen, lane::comm, to_string(c.what));
        if (seen) bar.args = join("\"elements\":", c.count, ",\"type\":\"", to_string(c.type), '"');
        sent.call(c.what, c.type);
        const meeting::together now = of_->all.meet(rank(), c);
        move(c, now);
    }

    // What rank() has to do. The others wait for it without a deadline: it throws nothing.
    void move(const collective& c, const meeting::together& now) noexcept {
        const std::size_t me = std::size_t(rank());
        switch (c.what) {
        case verb::all_reduce:
            sum(c, slice_of(c.count, size(), rank()), now);
            break;
        case verb::reduce_scatter:
            sum(c, {c.count * me, c.count}, now);
            break;
        case verb::agree:
        case verb::all_gather:
            for (int r = 0; r < size(); ++r) copy(c, r, 0, c.count * std::size_t(r), now);
            break;
        case verb::broadcast:
            if (c.peer != rank()) copy(c, c.peer, 0, 0, now);
            break;
        case verb::all_to_all:
            for (int r = 0; r < size(); ++r)
                copy(c, r, c.count * me, c.count * std::size_t(r), now);
            break;
        default:
            break; // a barrier has nothing to move
        }
    }

    // The sum of everybody's elements s: into everybody's (all_reduce), or into my part.
    void sum(const collective& c, slice s, const meeting::together& now) {
        const std::size_t at = s.begin * bytes_of(c.type);
        const bool to_all = c.what == verb::all_reduce;
        for (int r = 0; r < size(); ++r) {
            in_[std::size_t(r)] = static_cast<const std::byte*>(now.call(r).in) + at;
            if (to_all) out_[std::size_t(r)] = static_cast<std::byte*>(now.call(r).out) + at;
            if (r == rank()) continue;
            now.book(r).message(c.what, c.type, s.size);      // its part for the sum
            if (to_all) sent.message(c.what, c.type, s.size); // and the sum for it
        }
        if (to_all)
            sum_in_rank_order(c.type, in_, out_, s.size);
        else
            sum_in_rank_order(c.type, in_, c.out, s.size);
    }
    // c.count elements of rank r's buffer, from element `from` on, to element `to` of mine.
    void copy(const collective& c, int r, std::size_t from, std::size_t to,
              const meeting::together& now) {
        const std::size_t one = bytes_of(c.type);
        const void* const source = static_cast<const std::byte*>(now.call(r).in) + from * one;
        std::byte* const target = static_cast<std::byte*>(c.out) + to * one;
        if (r != rank()) now.book(r).message(c.what, c.type, c.count);
        if (c.count > 0 && source != target) std::memcpy(target, source, c.count * one);
    }

    // Every rank brings a group; returns what rank `whose` has brought.
    std::shared_ptr<thread_group> exchange(const std::shared_ptr<thread_group>& mine, int whose) {
        std::shared_ptr<thread_group> found;
        progress_.run([&] {
            const meeting::together now =
                of_->all.meet(rank(), {verb::agree, element::byte, &mine, nullptr, 1});
            found = *static_cast<const std::shared_ptr<thread_group>*>(now.call(whose).in);
        });
        return found;
    }

    std::shared_ptr<thread_group> of_;
    std::vector<const void*> in_; // the ranks' parts of a sum
    std::vector<void*> out_;      // and where it goes
    progress progress_;           // ends first: what it does uses all of this
};

} // namespace mpt
