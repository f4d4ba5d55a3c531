// SPDX-License-Identifier: MIT
/// @file master_weights.hpp
/// The weights that learn, in fp32, and the 16-bit copy that computes.     tier 5, needs:
/// base/error.hpp nn/cpu.hpp nn/params.hpp numeric/cast.hpp numeric/scalar.hpp train/blocks.hpp
///
/// Idea     Most steps change a weight by so small a part of it that 8 or 11 bits of significand
///          round the change away. So each rank keeps the weights it owns in fp32, updates those,
///          and rounds them once for forward and backward. fp32 weights are their own master.
/// Formula  weights = round(master), after every step
/// Costs    16-bit weights: 4 bytes a parameter owned.  fp32, fp64: 0
/// Breaks   bf16 without a master: 1.0 - 1e-4 is 1.0, however often; a weight of 1 goes down only
///          by more than 2^-9, up only by more than 2^-8
/// Source   Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740
/// See      update_pass.hpp (rounds, or does without), tests/train/master_weights_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // check
#include "mpt/nn/cpu.hpp"         // cpu
#include "mpt/nn/params.hpp"      // pieces
#include "mpt/numeric/cast.hpp"   // cast
#include "mpt/numeric/scalar.hpp" // wide_t
#include "mpt/train/blocks.hpp"   // blocks, pieces_of

#include <cstddef>
#include <type_traits>
#include <vector>

namespace mpt {

/// Are weights of T their own master?
template <class T>
inline constexpr bool own_master = std::is_same_v<T, wide_t<T>>;

/// Elements of wide_t<T> to allocate as master of `owned` weights.
template <class T>
constexpr std::size_t master_size(std::size_t owned) {
    return own_master<T> ? 0 : owned;
}

/// The master of the weights `mine`: they themselves where T is wide, else the parts of `packed`,
/// master_size() elements that the caller owns.
template <class T>
pieces<wide_t<T>> master_of(device_span<wide_t<T>> packed, const pieces<T>& mine) {
    if constexpr (own_master<T>) {
        check(packed.empty(), "master_of: ", packed.size(), " elements for weights of ", name<T>(),
              ", which are their own master; allocate master_size()");
        return mine;
    } else {
        return pieces_of(packed, mine);
    }
}

/// `to` = `from` in the other format, each element rounded once: master to weights after a step,
/// weights to master at a start from 16-bit weights. Pieces that lie in the same place are left.
template <class S, class D>
void cast(const cpu& on, const pieces<S>& from, const pieces<D>& to) {
    check_same_pieces("cast", from, to);
    const std::vector<block> cut = blocks(from);
    on.pool.for_each(cut.size(), [&](std::size_t task, int) {
        const block& b = cut[task];
        const auto* source = from[b.piece].data.data() + b.begin;
        D* target = to[b.piece].data.data() + b.begin;
        if (static_cast<const void*>(source) != static_cast<const void*>(target))
            cast(source, target, b.size());
    });
}

} // namespace mpt
