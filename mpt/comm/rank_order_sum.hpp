// SPDX-License-Identifier: MIT
/// @file rank_order_sum.hpp
/// The sum of what ranks have sent, in one order and with one rounding.    tier 2, needs:
/// base/error.hpp base/qualifiers.hpp comm/traffic.hpp numeric/cast.hpp numeric/scalar.hpp
///
/// Idea     Floating-point sums depend on their order; a ring gives every part of a buffer another
///          one. Here rank 0's number comes first, then rank 1's, ..., in fp32, and the sum is
///          rounded to 16 bits once. So threads, MPI, one bucket or many have the same bits.
/// Formula  out_i = round(((x0_i + x1_i) + x2_i) + ...)
/// Costs    N reads and a write an element and result; a chunk of sums stays in the nearest cache
/// Breaks   16-bit sums on the way: 64 x 2048 in fp16 pass 65504 though their mean is 2048; 1e8, 1,
///          -1e8, 1 make 1 in this order, and 0 in others
/// See      world.hpp (who sums so), tests/comm/rank_order_sum_test.cpp
#pragma once
#include "mpt/base/error.hpp"      // error
#include "mpt/base/qualifiers.hpp" // MPT_RESTRICT
#include "mpt/comm/traffic.hpp"    // element
#include "mpt/numeric/cast.hpp"    // cast
#include "mpt/numeric/scalar.hpp"  // wide_t

#include <algorithm>
#include <cstddef>
#include <span>

namespace mpt {

/// Each of `outs` (n) = the sum of the parts (n each), first to last; an out may be one of the
/// parts. Pointers to T, or to void.
template <class T, class In, class Out>
void sum_in_rank_order(std::span<const In* const> parts, std::span<Out* const> outs,
                       std::size_t n) {
    using W = wide_t<T>;
    constexpr std::size_t chunk = 1024;
    W sum[chunk], room[chunk];
    for (std::size_t at = 0; at < n; at += chunk) {
        const std::size_t m = std::min(chunk, n - at);
        cast(static_cast<const T*>(parts[0]) + at, sum, m);
        for (const In* part : parts.subspan(1)) {
            const W* MPT_RESTRICT x = widen(static_cast<const T*>(part) + at, m, room);
            for (std::size_t i = 0; i < m; ++i) sum[i] += x[i];
        }
        for (Out* out : outs) cast(sum, static_cast<T*>(out) + at, m);
    }
}

/// Into one.
template <class T>
void sum_in_rank_order(std::span<const T* const> parts, T* out, std::size_t n) {
    sum_in_rank_order<T, T, T>(parts, std::span<T* const>(&out, 1), n);
}

/// Of elements whose type is known when it runs.
inline void sum_in_rank_order(element type, std::span<const void* const> parts,
                              std::span<void* const> outs, std::size_t n) {
    switch (type) {
    case element::fp32:
        return sum_in_rank_order<float>(parts, outs, n);
    case element::fp64:
        return sum_in_rank_order<double>(parts, outs, n);
    case element::fp16:
        return sum_in_rank_order<fp16>(parts, outs, n);
    case element::bf16:
        return sum_in_rank_order<bf16>(parts, outs, n);
    default:
        throw error(join("sum: elements of type ", to_string(type), " are not summed"));
    }
}
inline void sum_in_rank_order(element type, std::span<const void* const> parts, void* out,
                              std::size_t n) {
    sum_in_rank_order(type, parts, std::span<void* const>(&out, 1), n);
}

} // namespace mpt
