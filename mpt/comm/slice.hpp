// SPDX-License-Identifier: MIT
/// @file slice.hpp
/// Which elements of a buffer a rank owns.                                  tier 2, needs: std only
///
/// Formula  of n elements rank r of N owns [r c, (r + 1) c), cut off at n, with c = n / N rounded
///          up: equal parts, but for the last ones, which may be shorter or empty
/// See      world.hpp, mpi.hpp (who divide so), tests/comm/slice_test.cpp
#pragma once
#include <algorithm>
#include <cstddef>

namespace mpt {

struct slice {
    std::size_t begin, size; // elements
};

inline slice slice_of(std::size_t n, int ranks, int rank) {
    const std::size_t most = (n + std::size_t(ranks) - 1) / std::size_t(ranks);
    const std::size_t begin = std::min(n, most * std::size_t(rank));
    return {begin, std::min(n - begin, most)};
}

} // namespace mpt
