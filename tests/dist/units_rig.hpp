// SPDX-License-Identifier: MIT
/// @file units_rig.hpp
/// Three units of unlike sizes, gradients that differ by rank and micro-batch, and what a model's
/// backward does to a strategy with them.
#pragma once
#include "../train/rig.hpp"
#include "mpt/nn/params.hpp"
#include "mpt/nn/strategy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rig {

inline mpt::layout three_units() {
    mpt::layout map;
    map.add_unit("first");
    map.add("a", {40, 20}, 1);
    map.add("b", {3}, 0);
    map.add_unit("middle");
    map.add("c", {1}, 0);
    map.add_unit("last");
    map.add("d", {2000, 1}, 1);
    return map;
}

template <class T>
std::vector<T> gradient(const mpt::layout& map, int rank, int micro) {
    return numbers<T>(std::uint32_t(10 * rank + micro), map.size(), 1);
}

/// Gradient g of micro-batch `micro`: the last unit first, unit 0 around all.
template <class T>
void backward(mpt::strategy<T>& s, const mpt::layout& map, mpt::gradients<T>& grads,
              const std::vector<T>& g, int micro) {
    const mpt::device_span<T> around = s.collect(grads, 0);
    for (int u = int(map.units.size()) - 1; u >= 0; --u) {
        const mpt::device_span<T> to = u > 0 ? s.collect(grads, u) : around;
        REQUIRE(to.size() == map.units[std::size_t(u)].size());
        std::copy_n(g.data() + map.units[std::size_t(u)].begin, to.size(), to.data());
        s.ready(grads, u, micro);
    }
}

} // namespace rig
