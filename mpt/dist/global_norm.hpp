// SPDX-License-Identifier: MIT
/// @file global_norm.hpp
/// The length of the whole gradient, of which a rank may own a part.       tier 6, needs:
/// nn/params.hpp nn/strategy.hpp train/inspect.hpp
///
/// Idea     Every element counts once, on whichever rank it lies. Squares are added in one order
///          for all strategies: shards of a unit by rank, then units. So all clip by one factor.
/// Formula  norm = sqrt(sum over units of (sum over ranks of squares of their shard)), in fp64
/// Breaks   a rank that takes the norm of its own shard; elements that all ranks hold, counted on
///          each: shards 3 and 4 and 12 on both make 13, not sqrt(9 + 16 + 2 * 144) = 17.7
/// See      train/inspect.hpp (squares of each piece), train/clip.hpp, tests/dist/ddp_test.cpp
#pragma once
#include "mpt/nn/params.hpp"     // layout, pieces
#include "mpt/nn/strategy.hpp"   // strategy, owned_gradients
#include "mpt/train/inspect.hpp" // health

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace mpt {

/// Of gradients still scaled: `grads` as finish() returned them, `h` of them. Called by all ranks;
/// the same number on each.
template <class T>
double norm(strategy<T>& s, const layout& map, const owned_gradients<T>& grads, const health& h) {
    std::vector<double> squares(map.units.size());
    grads.visit([&](const auto& parts) {
        std::size_t unit = 0;
        for (std::size_t p = 0; p < parts.size(); ++p) {
            while (parts[p].begin >= map.units[unit].end) ++unit;
            squares[unit] += h.squares[p];
        }
    });
    s.add_shards(squares);
    double sum = 0;
    for (const double x : squares) sum += x;
    return std::sqrt(sum);
}

} // namespace mpt
