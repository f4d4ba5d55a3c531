// SPDX-License-Identifier: MIT
/// @file hierarchical.hpp
/// all_reduce over servers: as little as possible between them.            tier 2, needs:
/// base/error.hpp comm/communicator.hpp
///
/// Idea     Links inside a server are fast, those between servers slow. So first a reduce_scatter
///          among the L ranks of a server, then an all_reduce between the M ranks that hold the
///          same part in the M servers, then an all_gather inside again.
/// Formula  rank r is rank r % L of server r / L
/// Costs    n elements, L | n: a rank sends 2 n (L-1)/L inside and 2 (n/L) (M-1)/M between, all its
///          own; a flat all_reduce sends most of 2 n (LM-1)/(LM) between
/// Breaks   another order of sums than a flat all_reduce: equal to rounding, not to the bit
/// See      cost_model.hpp (when it pays), tests/comm/algorithms_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // check
#include "mpt/comm/communicator.hpp" // communicator

#include <cstddef>
#include <memory>

namespace mpt {

struct servers {
    /// `comm`: all ranks, `each` of them in every server, one server's behind one another. Every
    /// rank calls it.
    servers(communicator& comm, int each) {
        check(each >= 1 && comm.size() % each == 0, "servers: ", comm.size(), " ranks, ", each,
              " in each server; wanted a number that divides the ranks");
        inside = comm.split(comm.rank() / each, comm.rank());
        between = comm.split(comm.rank() % each, comm.rank());
    }

    /// x (n, a multiple of `each`): becomes the sum.
    template <class T>
    void all_reduce(device_span<T> x) {
        const std::size_t n = x.size() / std::size_t(inside->size());
        check(n * std::size_t(inside->size()) == x.size(), "servers: ", x.size(), " elements for ",
              inside->size(), " ranks; pad to a multiple");
        const device_span<T> mine = x.subspan(n * std::size_t(inside->rank()), n);
        inside->reduce_scatter(mine, x);
        between->all_reduce(mine);
        inside->all_gather(x, mine);
    }

    std::unique_ptr<communicator> inside;  // the ranks of my server
    std::unique_ptr<communicator> between; // those with my place in every server
};

} // namespace mpt
