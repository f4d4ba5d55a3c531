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
#include <cstring>
#include <span>
#include <type_traits>

namespace mpt {

namespace rank_order {
// sum (n) = a + b, and sum += b. Plain functions: that is what compilers vectorise.
template <class W>
void set(W* MPT_RESTRICT sum, const W* MPT_RESTRICT a, const W* MPT_RESTRICT b, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}
template <class W>
void add(W* MPT_RESTRICT sum, const W* MPT_RESTRICT b, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) sum[i] += b[i];
}
} // namespace rank_order

/// Each of `outs` (n) = the sum of the parts (n each), first to last; an out may be one of the
/// parts. Pointers to T, or to void.
template <class T, class In, class Out>
void sum_in_rank_order(std::span<const In* const> parts, std::span<Out* const> outs,
                       std::size_t n) {
    using W = wide_t<T>;
    constexpr std::size_t chunk = 1024;
    alignas(64) W first[chunk], next[chunk], sum[chunk]; // two parts, widened; their sum
    for (std::size_t at = 0; at < n; at += chunk) {
        const std::size_t m = std::min(chunk, n - at);
        const auto part = [&](std::size_t r, W* room) {
            return widen(static_cast<const T*>(parts[r]) + at, m, room);
        };
        const W* total = part(0, first);
        for (std::size_t r = 1; r < parts.size(); ++r) {
            const W* const x = part(r, next);
            r == 1 ? rank_order::set(sum, total, x, m) : rank_order::add(sum, x, m);
            total = sum;
        }
        T* const one = static_cast<T*>(outs[0]) + at;
        cast(total, one, m);
        // Rounded once, however many receive it. What was not rounded is copied from here: loads
        // from the first result would wait for its stores.
        const void* const result = std::is_same_v<T, W> ? static_cast<const void*>(total) : one;
        for (Out* out : outs.subspan(1))
            std::memcpy(static_cast<T*>(out) + at, result, m * sizeof(T));
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
