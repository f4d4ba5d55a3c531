// SPDX-License-Identifier: MIT
/// @file tree.hpp
/// all_reduce up and down a tree: few steps.                               tier 2, needs:
/// comm/communicator.hpp comm/rank_order_sum.hpp
///
/// Idea     Neighbours add up in pairs, then pairs of pairs, ...: after log2 N steps rank 0 has the
///          sum, and it goes down the same way. For small buffers steps are what costs.
/// Formula  in step s = 1, 2, 4, ... rank r sends to r - s where r is an odd multiple of s
/// Costs    n elements, N ranks: a rank sends n once up (rank 0 not) and n to each child; all
///          together 2 n (N-1) in 2 (N-1) messages; 2 ceil(log2 N) steps; a room of n
/// Breaks   large buffers: every step moves all n, a step of a ring n / N. Sums of 16 bits are
///          rounded at each addition
/// See      ring.hpp, leader.hpp, cost_model.hpp, tests/comm/algorithms_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator
#include "mpt/comm/rank_order_sum.hpp" // sum_in_rank_order

namespace mpt {

/// x (n), on the host: becomes the sum, ((x0 + x1) + (x2 + x3)) + ... room: n.
template <class T>
void tree_all_reduce(communicator& comm, device_span<T> x, device_span<T> room) {
    const int me = comm.rank(), ranks = comm.size();
    const device_span<T> theirs = room.first(x.size());
    int step = 1;
    for (; step < ranks && me % (2 * step) == 0; step *= 2) {
        if (me + step >= ranks) continue; // no child there
        comm.recv(theirs, me + step);
        const T* const both[] = {x.data(), theirs.data()};
        sum_in_rank_order<T>(both, x.data(), x.size());
    }
    if (me > 0) {
        comm.send(x, me - step);
        comm.recv(x, me - step);
    }
    while ((step /= 2) >= 1) // the last child first: it has the most below it
        if (me + step < ranks) comm.send(x, me + step);
}

} // namespace mpt
