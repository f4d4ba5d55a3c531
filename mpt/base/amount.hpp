// SPDX-License-Identifier: MIT
/// @file amount.hpp
/// A number of bytes or elements that throws where it would wrap.          tier 0, needs:
/// base/error.hpp
///
/// Idea     Formulas of sizes are products of five factors; past 2^64 they come back small, and a
///          small number of bytes is believed. Here + and * say so instead.
/// Costs    a comparison or a division each: for formulas, not for loops over elements
/// Breaks   amount(a * b): the product was taken before; write amount(a) * b
/// See      nn/model_size.hpp, train/estimate.hpp (its users), tests/base/amount_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mpt {

struct amount {
    std::size_t n = 0;

    amount() = default;
    template <std::integral I>
    amount(I value) : n(std::size_t(value)) {
        if constexpr (std::is_signed_v<I>) check(value >= 0, "size ", value, ": below 0");
    }

    friend amount operator+(amount a, amount b) {
        check(a.n <= SIZE_MAX - b.n, "size ", a.n, " + ", b.n,
              ": past 64 bits; give smaller sizes");
        return a.n + b.n;
    }
    friend amount operator*(amount a, amount b) {
        check(b.n == 0 || a.n <= SIZE_MAX / b.n, "size ", a.n, " * ", b.n,
              ": past 64 bits; give smaller sizes");
        return a.n * b.n;
    }
};

/// a / b, rounded up: parts of b in a, or the largest share where b share a.
inline amount div_up(amount a, amount b) {
    check(b.n > 0, "size ", a.n, " in 0 parts");
    return a.n / b.n + (a.n % b.n != 0);
}

} // namespace mpt
