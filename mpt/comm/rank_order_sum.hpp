// SPDX-License-Identifier: MIT
/// @file rank_order_sum.hpp
/// The sum of what ranks have sent, in one order and with one rounding.    tier 2, needs:
/// base/error.hpp base/qualifiers.hpp comm/traffic.hpp numeric/cast.hpp numeric/scalar.hpp
///
/// Idea     Floating-point sums depend on their order; a ring gives every part of a buffer another
///          one. Here rank 0's number comes first, then rank 1's, ..., in fp32, and the sum is
///          rounded to 16 bits once. So threads, MPI, one bucket or many have the same bits.
/// Formula  out_i = round(((x0_i + x1_i) + x2_i) + ...)
/// Costs    N reads and a write an element; a chunk of sums stays in the nearest cache
/// Breaks   16-bit sums on the way: 64 x 2048 in fp16 pass 65504 though their mean is 2048; 1e8, 1,
///          -1e8, 1 make 1 in this order, and 0 in others
/// See      world.hpp (who sums so)
#pragma once
#include "mpt/base/error.hpp"      // error
#include "mpt/base/qualifiers.hpp" // MPT_RESTRICT
#include "mpt/comm/traffic.hpp"    // element
#include "mpt/numeric/cast.hpp"    // cast
#include "mpt/numeric/scalar.hpp"  // wide_t

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace mpt {

/// out (n) = the sum of the parts (n each), first to last; `out` may be one of them.
template <class T>
void sum_in_rank_order(std::span<const T* const> parts, T* out, std::size_t n) {
    using W = wide_t<T>;
    constexpr std::size_t chunk = 1024;
    W sum[chunk], room[chunk];
    for (std::size_t at = 0; at < n; at += chunk) {
        const std::size_t m = std::min(chunk, n - at);
        cast(parts[0] + at, sum, m);
        for (const T* part : parts.subspan(1)) {
            const W* MPT_RESTRICT x = widen(part + at, m, room);
            for (std::size_t i = 0; i < m; ++i) sum[i] += x[i];
        }
        cast(sum, out + at, m);
    }
}

/// The same, of elements whose type is known when it runs.
inline void sum_in_rank_order(element type, std::span<const void* const> parts, void* out,
                              std::size_t n) {
    const auto of = [&]<class T>(T*) {
        std::vector<const T*> typed;
        for (const void* p : parts) typed.push_back(static_cast<const T*>(p));
        sum_in_rank_order(std::span<const T* const>(typed), static_cast<T*>(out), n);
    };
    switch (type) {
    case element::fp32:
        return of(static_cast<float*>(nullptr));
    case element::fp64:
        return of(static_cast<double*>(nullptr));
    case element::fp16:
        return of(static_cast<fp16*>(nullptr));
    case element::bf16:
        return of(static_cast<bf16*>(nullptr));
    default:
        throw error(join("sum: elements of type ", to_string(type), " are not summed"));
    }
}

} // namespace mpt
