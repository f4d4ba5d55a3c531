// SPDX-License-Identifier: MIT
/// @file leader.hpp
/// all_reduce by one rank that does it for all.                            tier 2, needs:
/// comm/communicator.hpp comm/rank_order_sum.hpp
///
/// Idea     All send to rank 0, which adds them up and sends the sum back: what one writes first.
/// Costs    n elements, N ranks: rank 0 sends n (N-1) in N - 1 messages, each other n in one; a
///          room of n. Every byte passes rank 0, while the others wait
/// Breaks   with every rank more it takes longer: 2 (N-1) n elements through one link, where an
///          owner of a slice has 2 n (N-1)/N. Sums of 16 bits are rounded at each addition
/// See      ring.hpp, tree.hpp, cost_model.hpp, tests/comm/algorithms_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator
#include "mpt/comm/rank_order_sum.hpp" // sum_in_rank_order

namespace mpt {

/// x (n), on the host: becomes the sum, in rank order. room: n.
template <class T>
void leader_all_reduce(communicator& comm, device_span<T> x, device_span<T> room) {
    if (comm.rank() > 0) {
        comm.send(x, 0);
        comm.recv(x, 0);
        return;
    }
    const device_span<T> theirs = room.first(x.size());
    for (int r = 1; r < comm.size(); ++r) {
        comm.recv(theirs, r);
        const T* const both[] = {x.data(), theirs.data()};
        sum_in_rank_order<T>(both, x.data(), x.size());
    }
    for (int r = 1; r < comm.size(); ++r) comm.send(x, r);
}

} // namespace mpt
