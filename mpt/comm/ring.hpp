// SPDX-License-Identifier: MIT
/// @file ring.hpp
/// Collectives as a ring of sends to the next rank.                        tier 2, needs:
/// comm/communicator.hpp comm/rank_order_sum.hpp comm/slice.hpp
///
/// Idea     Every rank sends to the next one only. A slice starts at the rank behind its owner,
///          goes once round, each rank adds its own part, and arrives at the owner as the sum;
///          N - 1 steps, in which all links work at once. Once more round, and all have it.
/// Formula  slice c is (x_{c+1} + x_{c+2} + ...) + x_c: every slice has an order of its own
/// Costs    N ranks, n elements, N | n: all_reduce sends 2 n (N-1)/N in 2 (N-1) messages, the two
///          others n (N-1)/N in N - 1; a room for one slice. Among threads 20 (N-1) bytes an
///          element of fp32 through memory, where thread_rank.hpp moves 8 N
/// Breaks   1e8, 1, -1e8, 1 of 4 ranks: 0, 1, 0, 1 where 1 everywhere is rank order. Sums of 16
///          bits are rounded at each rank
/// Source   Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms
/// See      cost_model.hpp, leader.hpp, tree.hpp, tests/comm/algorithms_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator
#include "mpt/comm/rank_order_sum.hpp" // sum_in_rank_order
#include "mpt/comm/slice.hpp"          // slice, slice_of

#include <cstddef>
#include <cstring>

namespace mpt {

/// Where a rank is in the ring.
struct ring {
    explicit ring(const communicator& comm) : ranks(comm.size()), me(comm.rank()) {}
    int next() const { return (me + 1) % ranks; }
    int before() const { return (me + ranks - 1) % ranks; }
    int back(int steps) const { return (me + 2 * ranks - steps) % ranks; } // steps <= 2 ranks

    int ranks, me;
};

/// x (n), on the host: slice_of(n, N, rank) becomes the sum, the rest is used up.
/// room: a slice, ceil(n / N).
template <class T>
void ring_reduce_scatter(communicator& comm, device_span<T> x, device_span<T> room) {
    const ring at(comm);
    const auto part = [&](int r) {
        const slice s = slice_of(x.size(), at.ranks, r);
        return x.subspan(s.begin, s.size);
    };
    for (int step = 1; step < at.ranks; ++step) {
        const device_span<T> mine = part(at.back(step + 1)), theirs = room.first(mine.size());
        handle going = comm.start_send(part(at.back(step)), at.next());
        comm.recv(theirs, at.before());
        going.wait();
        const T* const both[] = {theirs.data(), mine.data()}; // what came, and then mine
        sum_in_rank_order<T>(both, mine.data(), mine.size());
    }
}

/// x (n): each slice becomes its owner's.
template <class T>
void ring_all_gather(communicator& comm, device_span<T> x) {
    const ring at(comm);
    const auto part = [&](int r) {
        const slice s = slice_of(x.size(), at.ranks, r);
        return x.subspan(s.begin, s.size);
    };
    for (int step = 0; step + 1 < at.ranks; ++step) {
        handle going = comm.start_send(part(at.back(step)), at.next());
        comm.recv(part(at.back(step + 1)), at.before());
        going.wait();
    }
}

/// x (n): becomes the sum. room: ceil(n / N).
template <class T>
void ring_all_reduce(communicator& comm, device_span<T> x, device_span<T> room) {
    ring_reduce_scatter(comm, x, room);
    ring_all_gather(comm, x);
}

} // namespace mpt
