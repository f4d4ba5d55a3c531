// SPDX-License-Identifier: MIT
/// @file consistency.hpp
/// Do all ranks have the same weights? If not: who differs, and where.     tier 6, needs:
/// base/crc32c.hpp comm/communicator.hpp nn/params.hpp nn/strategy.hpp
///
/// Idea     A rank that has drifted away (a step that it took alone, a bit that flipped) trains on
///          without an error, and spoils all others by its gradients. So each takes a check sum of
///          every tensor as it is about to use it, and all compare. Where they differ, those of
///          the fewer are named; two against two can only be said to differ.
/// Costs    one read of the weights, 8 bytes a tensor and rank sent; zero3 gathers each unit once
/// Breaks   asked by some ranks only: it is a collective. Asked after each step: it takes its time
/// See      base/crc32c.hpp (what it sees), tests/dist/consistency_test.cpp
#pragma once
#include "mpt/base/crc32c.hpp"       // crc32c
#include "mpt/comm/communicator.hpp" // communicator
#include "mpt/nn/params.hpp"         // layout, view
#include "mpt/nn/strategy.hpp"       // strategy

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mpt {

/// The ranks whose number is not that of the most, out of one number a rank; of as many against as
/// many, those that differ from rank 0.
inline std::vector<int> odd_ones(const std::vector<double>& said) {
    const auto votes = [&](double x) { return std::count(said.begin(), said.end(), x); };
    const double most = *std::max_element(said.begin(), said.end(),
                                          [&](double a, double b) { return votes(a) < votes(b); });
    std::vector<int> odd;
    for (std::size_t r = 0; r < said.size(); ++r)
        if (said[r] != most) odd.push_back(int(r));
    return odd;
}

/// Throws on every rank unless all have the same bits in all weights; called by all. Ops: whose
/// on_host(span, room) shows device memory to the host, as in nn/loops.hpp.
template <class T, class Ops>
void check_same_weights(const Ops& ops, communicator& comm, const layout& map, strategy<T>& s,
                        device_span<const T> weights) {
    std::vector<double> mine; // a check sum a tensor
    std::vector<T> room;
    for (std::size_t t = 0, u = 0; u < map.units.size(); ++u) {
        const device_span<const T> unit = s.acquire(weights, int(u));
        for (; t < map.tensors.size() && map.tensors[t].unit == int(u); ++t)
            mine.push_back(crc32c(
                std::as_bytes(std::span<const T>(ops.on_host(view(map, unit, int(t)), room)))));
        s.release(int(u));
    }
    const std::vector<double> all = comm.gather(mine);
    std::vector<int> first;       // who differs in the first such tensor
    std::size_t where = 0, n = 0; // ... which one that is, and how many there are
    for (std::size_t t = mine.size(); t-- > 0;) {
        std::vector<double> said;
        for (std::size_t r = 0; r < std::size_t(comm.size()); ++r)
            said.push_back(all[r * mine.size() + t]);
        const std::vector<int> odd = odd_ones(said);
        if (odd.empty()) continue;
        first = odd;
        where = t;
        ++n;
    }
    if (n == 0) return;
    std::string who = first.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < first.size(); ++i)
        who += (i ? ", " : "") + std::to_string(first[i]);
    const tensor_info& t = map.tensors[where];
    throw error(join("weights: ", who, first.size() == 1 ? " has" : " have",
                     " other bits than the others in ", t.name, " (unit ",
                     map.units[std::size_t(t.unit)].name, "), ", n, " of ", mine.size(),
                     " tensors differ; go back to the last checkpoint, and look for a step that "
                     "not all ranks took"));
}

} // namespace mpt
