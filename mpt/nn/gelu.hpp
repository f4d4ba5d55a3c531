// SPDX-License-Identifier: MIT
/// @file gelu.hpp
/// GELU, in GPT-2's tanh form, and its gradient.                           tier 4, needs:
/// nn/cpu.hpp nn/fast_math.hpp numeric/cast.hpp
///
/// Idea     x times the share of it that a soft switch lets through. Since (1 + tanh u)/2 =
///          1/(1 + e^-2u), one exp does it, and far below zero nothing cancels.
/// Formula  y = x s,  s = 1/(1 + e^-2u),  u = sqrt(2/pi) (x + 0.044715 x^3)
///          dx = dy (s + 2 x s (1 - s) du/dx)
/// Costs    2 reads and 1 write an element, about 25 operations
/// Source   Hendrycks, Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415
/// See      fast_math.hpp (exp), tests/nn/gelu_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"       // cpu: pool
#include "mpt/nn/fast_math.hpp" // fast_exp
#include "mpt/numeric/cast.hpp" // widen, narrow, wide_t, MPT_RESTRICT

#include <algorithm>
#include <cstddef>

namespace mpt {

/// Elements that an elementwise operation widens, computes and narrows at a time: they stay in the
/// first-level cache.
inline constexpr std::size_t element_block = 1024;
/// Elements a task of an elementwise operation.
inline constexpr std::size_t element_grain = 16 * element_block;

// 1/(1 + e^-2u)
template <class W>
inline W gelu_switch(W x) {
    constexpr W minus_2_root = W(-1.5957691216057308), cubic = W(0.044715); // -2 sqrt(2/pi)
    return W(1) / (W(1) + fast_exp(minus_2_root * (x + cubic * x * x * x)));
}

template <class W>
inline void gelu_block(W* MPT_RESTRICT y, const W* MPT_RESTRICT x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * gelu_switch(x[i]);
}

template <class W>
inline void gelu_gradient_block(W* MPT_RESTRICT dx, const W* MPT_RESTRICT dy,
                                const W* MPT_RESTRICT x, std::size_t n) {
    constexpr W twice_root = W(1.5957691216057308), cubic3 = W(3 * 0.044715);
    for (std::size_t i = 0; i < n; ++i) {
        W z = select(x[i] > W(40), W(40), x[i]); // past it s is 0 or 1, but x^2 might be infinite
        z = select(z < W(-40), W(-40), z);
        const W s = gelu_switch(z);
        dx[i] = dy[i] * (s + z * s * (W(1) - s) * twice_root * (W(1) + cubic3 * z * z));
    }
}

inline void check_gelu(std::size_t y, std::size_t x) {
    check(y == x, "gelu: y has ", y, " elements, x ", x, "; they must agree");
}
inline void check_gelu_backward(std::size_t dx, std::size_t dy, std::size_t x) {
    check(dx == x && dy == x, "gelu: dx has ", dx, " elements, dy ", dy, ", x ", x,
          "; they must agree");
}

/// y = gelu(x), elementwise.
template <class T>
void gelu_forward(const cpu& on, device_span<T> y, device_view<T> x) {
    check_gelu(y.size(), x.size());
    on.pool.for_ranges(x.size(), element_grain, [&](std::size_t begin, std::size_t end, int) {
        wide_t<T> in[element_block], out[element_block];
        for (std::size_t i = begin; i < end; i += element_block) {
            const std::size_t n = std::min(element_block, end - i);
            gelu_block(out, widen(x.data() + i, n, in), n);
            narrow(out, y.data() + i, n);
        }
    });
}

/// dx = dy gelu'(x), elementwise. dx may be dy.
template <class T>
void gelu_backward(const cpu& on, device_span<T> dx, device_view<T> dy, device_view<T> x) {
    check_gelu_backward(dx.size(), dy.size(), x.size());
    on.pool.for_ranges(x.size(), element_grain, [&](std::size_t begin, std::size_t end, int) {
        wide_t<T> in[element_block], gradient[element_block], out[element_block];
        for (std::size_t i = begin; i < end; i += element_block) {
            const std::size_t n = std::min(element_block, end - i);
            gelu_gradient_block(out, widen(dy.data() + i, n, gradient),
                                widen(x.data() + i, n, in), n);
            narrow(out, dx.data() + i, n);
        }
    });
}

} // namespace mpt
