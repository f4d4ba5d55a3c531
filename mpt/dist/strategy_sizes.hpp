// SPDX-License-Identifier: MIT
/// @file strategy_sizes.hpp
/// What a rank allocates for a strategy, in elements.                      tier 6, needs:
/// dist/partition.hpp dist/reduce_mode.hpp
///
/// Idea     ddp keeps all whole. ZeRO-1 keeps a shard of what the optimizer keeps, 2 of gradients
///          too, 3 of weights too. Buffers that others send to or read from are padded; what the
///          optimizer keeps is not.
/// Formula  bytes = s (weights + micro) + 4 sum + 12 owned, with s bytes a weight, Adam, a master
///          in fp32: 16, 4 + 12/N, 2 + 14/N and 16/N a parameter where nothing is padded
/// Breaks   reduce_mode::once with several micro-batches: a whole fp32 sum, in stages 2 and 3 also
/// See      ddp.hpp, zero1.hpp, zero2.hpp, zero3.hpp, tests/dist/memory_test.cpp
#pragma once
#include "mpt/dist/partition.hpp"   // partition, layout, check
#include "mpt/dist/reduce_mode.hpp" // reduce_mode

#include <cstddef>
#include <string>

namespace mpt {

struct strategy_sizes {
    std::size_t weights = 0; // of T, that the rank keeps
    std::size_t micro = 0;   // of T: gradients.micro
    std::size_t sum = 0;     // of fp32: gradients.sum
    std::size_t owned = 0;   // parameters that it updates: each of its master and moments
};

/// stage: of ZeRO, 0: ddp or one rank. micros: micro-batches of a window.
inline strategy_sizes sizes_of(int stage, const layout& map, const partition& cut, int rank,
                               int micros, reduce_mode mode) {
    check(stage >= 0 && stage <= 3, "ZeRO stage ", stage, "; choose 0 (ddp) to 3");
    const bool several = micros > 1, once = mode == reduce_mode::once;
    const std::size_t whole = stage == 0 ? map.size() : cut.padded_size();
    const std::size_t part = cut.packed_size();
    strategy_sizes s;
    s.weights = stage == 3 ? part : whole;
    s.micro = stage < 2 ? whole : part;
    if (stage >= 2 && several && once && cut.ranks() > 1) s.micro = 0; // reduced in fp32
    if (several) s.sum = stage == 0 || once ? whole : part;
    s.owned = stage == 0 ? map.size() : cut.owned(rank);
    return s;
}

/// What a run of stage 2 or 3 ought to say where its gradients are not sharded after all; or
/// nothing.
inline std::string remark(int stage, const strategy_sizes& s, int micros, reduce_mode mode) {
    if (stage < 2 || micros == 1 || mode == reduce_mode::every) return {};
    return join("zero", stage,
                " with gradients reduced once a window: each rank holds a whole sum ", "of them, ",
                s.sum * sizeof(float),
                " bytes in fp32; where each micro-batch is reduced it holds a shard");
}

} // namespace mpt
