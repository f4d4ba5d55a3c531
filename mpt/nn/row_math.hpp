// SPDX-License-Identifier: MIT
/// @file row_math.hpp
/// Sums over a row: vectorised, in one fixed order.                        tier 4, needs: std only
///
/// Idea     A compiler may not reorder a sum of floats, so a plain loop adds one element at a time.
///          Here 32 sums run side by side and are added up at the end: the loop becomes vector
///          instructions, and the order is the same on every machine, whatever its vectors' width.
/// Formula  s_k = sum of the terms i with i mod 32 = k;  sum = s_0 after
///          s_k += s_(k+16) for k < 16, s_k += s_(k+8) for k < 8, ... s_0 += s_1
/// Costs    an error of at most n/32 + 5 roundings instead of n
/// See      layernorm.hpp, attention.hpp, cross_entropy.hpp, tests/nn/row_math_test.cpp
#pragma once
#include <cstddef>

namespace mpt {

inline constexpr int sum_lanes = 32;

// s[k] = join(s[k], s[k + width]) for k < width, and so on by halves down to s[0].
template <int width, class W, class F>
inline void fold(W* s, F join) {
    for (int k = 0; k < width; ++k) s[k] = join(s[k], s[k + width]);
    if constexpr (width > 1) fold<width / 2>(s, join);
}

/// The sum of term(i), i < n. `term` is inlined: let it capture plain pointers by value.
template <class W, class F>
inline W row_sum(std::size_t n, F term) {
    W sums[sum_lanes] = {};
    const std::size_t whole = n / sum_lanes * sum_lanes;
    for (std::size_t i = 0; i < whole; i += sum_lanes)
        for (std::size_t k = 0; k < sum_lanes; ++k) sums[k] += term(i + k);
    for (std::size_t i = whole; i < n; ++i) sums[i - whole] += term(i);
    fold<sum_lanes / 2>(sums, [](W a, W b) { return a + b; });
    return sums[0];
}

/// The largest of x[0..n), n > 0; NaN is passed over (what follows meets it again).
template <class W>
inline W row_max(const W* x, std::size_t n) {
    W best[sum_lanes];
    for (W& b : best) b = x[0];
    const std::size_t whole = n / sum_lanes * sum_lanes;
    for (std::size_t i = 0; i < whole; i += sum_lanes)
        for (std::size_t k = 0; k < sum_lanes; ++k)
            best[k] = x[i + k] > best[k] ? x[i + k] : best[k];
    for (std::size_t i = whole; i < n; ++i)
        best[i - whole] = x[i] > best[i - whole] ? x[i] : best[i - whole];
    fold<sum_lanes / 2>(best, [](W a, W b) { return b > a ? b : a; });
    return best[0];
}

} // namespace mpt
