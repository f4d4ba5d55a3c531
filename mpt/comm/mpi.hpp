// SPDX-License-Identifier: MIT
/// @file mpi.hpp
/// Ranks as MPI processes, with the bits of the threads.                   tier 2, needs:
/// comm/communicator.hpp comm/mpi_group.hpp comm/progress.hpp comm/rank_order_sum.hpp
/// comm/slice.hpp
///
/// Idea     Every rank sends each owner its part (Isend, Irecv), and the owner sums in rank order,
///          as threads do: a chunk at a time, while the next one travels. MPI_Allreduce would
///          choose an order of its own, and another for another size.
/// Formula  the sums of rank_order_sum.hpp; the slices of slice.hpp
/// Costs    traffic.hpp's; a meeting a verb (mpi_group.hpp); 16 MiB for sums (past 64 ranks N / 4)
/// Breaks   a send() that waits for its receiver on both sides: start one of the two
/// Source   MPI 4.0, section 3.7
/// See      world.hpp, mpi_process.hpp (deadlines, the end of a job), tests/comm/mpi_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator, collective
#include "mpt/comm/mpi_group.hpp"      // mpi_group, mpi_process, mpi_mail
#include "mpt/comm/progress.hpp"       // progress
#include "mpt/comm/rank_order_sum.hpp" // sum_in_rank_order
#include "mpt/comm/slice.hpp"          // slice, slice_of

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#ifdef MPT_HAS_MPI
namespace mpt {

/// One of the processes. Its verbs are called by one thread.
class mpi_rank : public communicator {
public:
    /// Of all ranks of the job. `process` lives longer.
    explicit mpi_rank(mpi_process& process) : mpi_rank(std::make_unique<mpi_group>(process)) {}
    explicit mpi_rank(std::unique_ptr<mpi_group> of)
        : communicator(of->rank(), of->size()), of_(std::move(of)) {}

    std::vector<double> gather(std::span<const double> mine) override {
        std::vector<double> all(mine.size() * std::size_t(size()));
        run({verb::agree, element::fp64, mine.data(), all.data(), mine.size()});
        return all;
    }
    std::unique_ptr<communicator> split(int color, int key) override {
        std::unique_ptr<mpi_group> part = part_of(color, key);
        return part ? std::make_unique<mpi_rank>(std::move(part)) : nullptr;
    }

protected:
    handle start(const collective& c) override {
        if (c.what == verb::send) {
            sent.call(c.what, c.type);
            sent.message(c.what, c.type, c.count);
            return of_->post(c);
        }
        if (c.what == verb::recv) {
            sent.call(c.what, c.type);
            return handle([this, c] { of_->take(c); });
        }
        return progress_.start([this, c] { perform(c); }, [this] { of_->abandon(); });
    }
    void run(const collective& c) override {
        progress_.run([&] { perform(c); });
    }

    /// Done when it returns; on the caller's thread, or on that of what was started.
    virtual void perform(const collective& c) {
        range bar(seen, lane::comm, to_string(c.what));
        bar.args = join("\"elements\":", c.count, ",\"type\":\"", to_string(c.type), '"');
        sent.call(c.what, c.type);
        of_->agree(c);
        std::vector<slice> parts; // whose part of the elements is which
        for (int r = 0; r < size(); ++r)
            parts.push_back(c.what == verb::all_reduce ? slice_of(c.count, size(), r)
                                                       : slice{c.count * std::size_t(r), c.count});
        const slice mine = parts[std::size_t(rank())];
        const std::size_t one = bytes_of(c.type);
        const auto* const in = static_cast<const std::byte*>(c.in);
        auto* const out = static_cast<std::byte*>(c.out);
        switch (c.what) {
        case verb::all_reduce:
            sum_mine(c, parts, out + mine.begin * one);
            share(c, parts, out + mine.begin * one);
            break;
        case verb::reduce_scatter:
            sum_mine(c, parts, out);
            break;
        case verb::agree:
        case verb::all_gather:
            copy(in, out + mine.begin * one, mine.size * one);
            share(c, parts, in);
            break;
        case verb::broadcast: {
            mpi_mail mail;
            for (int r = 0; r < size(); ++r) {
                if (r == rank()) continue;
                if (c.peer == rank()) give(mail, c, r, in, c.count);
                if (c.peer == r) of_->recv(mail, r, mpi_group::data, out, c.count * one);
            }
            of_->finish(mail, c);
            break;
        }
        case verb::all_to_all: {
            mpi_mail mail;
            for (int r = 0; r < size(); ++r) {
                const std::size_t at = parts[std::size_t(r)].begin * one;
                if (r == rank()) {
                    copy(in + at, out + at, c.count * one);
                } else {
                    give(mail, c, r, in + at, c.count);
                    of_->recv(mail, r, mpi_group::data, out + at, c.count * one);
                }
            }
            of_->finish(mail, c);
            break;
        }
        default:
            break; // a barrier has nothing to move
        }
    }
    std::unique_ptr<mpi_group> part_of(int color, int key) {
        return of_->part(gather(of_->wish(color, key)));
    }
    /// What was started is at its end, or given up: for a class whose perform needs its members.
    void finish_started() {
        progress_.run([] {});
    }

private:
    // Bytes of a chunk, on all ranks alike: few meetings for few ranks, and 16 MiB in all.
    std::size_t chunk() const {
        constexpr std::size_t least = std::size_t(1) << 17, most = std::size_t(1) << 22;
        return std::clamp(most * 2 / std::size_t(size()) / 4096 * 4096, least, most);
    }

    static void copy(const std::byte* from, std::byte* to, std::size_t bytes) {
        if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
    }

    // n elements for rank r.
    void give(mpi_mail& mail, const collective& c, int r, const std::byte* from, std::size_t n) {
        sent.message(c.what, c.type, n);
        of_->send(mail, r, mpi_group::data, from, n * bytes_of(c.type));
    }

    // Everybody's part, from its owner.
    void share(const collective& c, const std::vector<slice>& parts, const std::byte* mine) {
        mpi_mail mail;
        const std::size_t one = bytes_of(c.type);
        for (int r = 0; r < size(); ++r) {
            if (r == rank()) continue;
            const slice theirs = parts[std::size_t(r)];
            of_->recv(mail, r, mpi_group::data, static_cast<std::byte*>(c.out) + theirs.begin * one,
                      theirs.size * one);
            give(mail, c, r, mine, parts[std::size_t(rank())].size);
        }
        of_->finish(mail, c);
    }

    // out = the sum of my part of everybody's `in`. While chunk k travels, chunk k - 1 is summed.
    void sum_mine(const collective& c, const std::vector<slice>& parts, std::byte* out) {
        const std::size_t one = bytes_of(c.type), bytes = chunk(), step = bytes / one;
        const auto* const in = static_cast<const std::byte*>(c.in);
        const slice mine = parts[std::size_t(rank())];
        std::size_t longest = 0;
        for (const slice& p : parts) longest = std::max(longest, p.size);
        const std::size_t chunks = (longest + step - 1) / step;
        if (chunks > 0 && size() > 1) room_.resize(2 * std::size_t(size()) * bytes);
        const auto of = [&](const slice& p, std::size_t k) { // elements of its chunk k
            return p.size > k * step ? std::min(step, p.size - k * step) : 0;
        };
        const auto room = [&](std::size_t k, int r) { // where what r sends for chunk k arrives
            return room_.data() + ((k % 2) * std::size_t(size()) + std::size_t(r)) * bytes;
        };
        mpi_mail going[2], coming[2];
        for (int r = 0; r < size(); ++r)
            if (r != rank()) sent.message(c.what, c.type, parts[std::size_t(r)].size);
        for (std::size_t k = 0; k <= chunks; ++k) {
            of_->finish(going[k % 2], c);
            for (int r = 0; r < size() && k < chunks; ++r) {
                if (r == rank()) continue;
                const slice theirs = parts[std::size_t(r)];
                of_->recv(coming[k % 2], r, mpi_group::data, room(k, r), of(mine, k) * one);
                of_->send(going[k % 2], r, mpi_group::data, in + (theirs.begin + k * step) * one,
                          of(theirs, k) * one);
            }
            if (k == 0) continue;
            of_->finish(coming[(k - 1) % 2], c);
            const std::size_t at = (k - 1) * step * one;
            std::vector<const void*> from;
            for (int r = 0; r < size(); ++r)
                from.push_back(r == rank() ? in + mine.begin * one + at : room(k - 1, r));
            if (of(mine, k - 1) > 0) sum_in_rank_order(c.type, from, out + at, of(mine, k - 1));
        }
        of_->finish(going[0], c);
        of_->finish(going[1], c);
    }

    std::unique_ptr<mpi_group> of_;
    std::vector<std::byte> room_; // for chunks of others
    progress progress_;           // last: it ends first, and uses the others until then
};

} // namespace mpt
#endif
