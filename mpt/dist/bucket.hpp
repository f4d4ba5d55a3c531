// SPDX-License-Identifier: MIT
/// @file bucket.hpp
/// Units whose gradients travel together.                                  tier 6, needs:
/// nn/params.hpp
///
/// Idea     A message has a price beside its bytes, so small units share one; but a bucket waits
///          for its last gradient, so it is not too large. Backward makes gradients from the last
///          unit to the first: buckets are filled in that order, and begin to travel while backward
///          goes on. A gradient's place is where its parameter lies, not when it arrived.
/// Formula  units are taken from the last one down while they fit in `most` bytes; one at least
/// Costs    none: a bucket is a part of the flat buffer
/// Breaks   slots given in the order of arrival: ranks that differ in it add unlike gradients
/// Source   Li et al. 2020, PyTorch Distributed, arXiv:2006.15704, section 3.2.2 (bucketing)
/// See      ddp.hpp, tests/dist/partition_test.cpp
#pragma once
#include "mpt/nn/params.hpp" // layout, unit_info

#include <cstddef>
#include <vector>

namespace mpt {

struct bucket {
    int first = 0, end = 0;          // units [first, end)
    std::size_t begin = 0, size = 0; // elements of the flat buffer
};

inline constexpr std::size_t bucket_bytes = std::size_t(25) << 20; // PyTorch's bucket_cap_mb = 25

/// The buckets in the order in which backward fills them. element: bytes of a gradient.
inline std::vector<bucket> buckets(const layout& map, std::size_t element,
                                   std::size_t most = bucket_bytes) {
    std::vector<bucket> all;
    for (int u = int(map.units.size()) - 1; u >= 0; --u) {
        const unit_info& unit = map.units[std::size_t(u)];
        if (all.empty() || (all.back().size + unit.size()) * element > most)
            all.push_back({u, u + 1, unit.begin, unit.size()});
        else
            all.back() = {u, all.back().end, unit.begin, all.back().size + unit.size()};
    }
    return all;
}

} // namespace mpt
