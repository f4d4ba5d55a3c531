// SPDX-License-Identifier: MIT
/// @file linear.hpp
/// y = x w^T + bias, and its three gradients.                              tier 4, needs:
/// nn/cpu.hpp nn/matmul.hpp nn/shapes.hpp numeric/cast.hpp
///
/// Idea     The layer that holds nearly all weights and takes nearly all time. w lies as (out, in),
///          as in PyTorch: an output is the product of a row of x with a row of w.
/// Formula  dx = dy w,  dw = dy^T x,  dbias = column sums of dy
/// Costs    2 rows in out operations forward, twice that backward
/// Breaks   a bias gradient summed in 16 bits: small terms vanish beside a large sum
/// Source   karpathy/llm.c#408 (gradients summed in bf16)
/// See      matmul.hpp, tests/nn/linear_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"       // cpu: pool
#include "mpt/nn/matmul.hpp"    // matmul, matrix, matmul_scratch
#include "mpt/nn/shapes.hpp"    // linear_shape
#include "mpt/numeric/cast.hpp" // widen, narrow, wide_t

#include <algorithm>
#include <cstddef>

namespace mpt {

/// Elements of wide_t<T> of scratch a worker needs.
template <class T>
constexpr std::size_t linear_scratch() {
    return matmul_scratch<T>();
}

template <class T>
void check_linear(device_view<T> x, device_view<T> y, device_view<T> w, device_view<T> bias,
                  linear_shape s) {
    const std::size_t rows = std::size_t(s.rows), in = std::size_t(s.in), out = std::size_t(s.out);
    check(x.size() == rows * in && y.size() == rows * out && w.size() == out * in &&
              (bias.empty() || bias.size() == out),
          "linear: x, y, w, bias have ", x.size(), ", ", y.size(), ", ", w.size(), ", ",
          bias.size(), " elements; rows ", s.rows, ", in ", s.in, ", out ", s.out, " want ",
          rows * in, ", ", rows * out, ", ", out * in, ", ", out, " (or no bias)");
}

/// y (rows,out) = x (rows,in) w^T (in,out) + bias (out); bias may be empty.
template <class T>
void linear_forward(const cpu& on, device_span<T> y, device_view<T> x, device_view<T> w,
                    device_view<T> bias, linear_shape s) {
    check_linear<T>(x, y, w, bias, s);
    const std::size_t in = std::size_t(s.in);
    matmul<T>(on, y.data(), s.rows, s.out, s.in, {x.data(), in}, {w.data(), in, true},
              bias.empty() ? nullptr : bias.data());
}

// sums (n) += the n columns of x, whose rows lie `stride` apart. In blocks of 64 rows, so that the
// error grows with 64 + rows/64 roundings, not with rows.
template <class T>
void column_sums(wide_t<T>* sums, const T* x, std::size_t rows, std::size_t stride, std::size_t n) {
    constexpr std::size_t block = 64, most = 256;
    wide_t<T> part[most], room[most];
    for (std::size_t r0 = 0; r0 < rows; r0 += block) {
        std::fill_n(part, n, wide_t<T>(0));
        for (std::size_t r = r0; r < std::min(rows, r0 + block); ++r) {
            const wide_t<T>* row = widen(x + r * stride, n, room);
            for (std::size_t j = 0; j < n; ++j) part[j] += row[j];
        }
        for (std::size_t j = 0; j < n; ++j) sums[j] += part[j];
    }
}

/// dx (rows,in) = dy w, dw (out,in) = dy^T x, dbias (out) = column sums of dy (rows,out).
/// dx and dbias may be empty: then they are not computed.
template <class T>
void linear_backward(const cpu& on, device_span<T> dx, device_span<T> dw, device_span<T> dbias,
                     device_view<T> dy, device_view<T> x, device_view<T> w, linear_shape s) {
    check_linear<T>(x, dy, w, dbias, s);
    check_linear<T>(dx.empty() ? x : device_view<T>(dx), dy, dw, dbias, s);
    const std::size_t in = std::size_t(s.in), out = std::size_t(s.out);
    if (!dx.empty())
        matmul<T>(on, dx.data(), s.rows, s.in, s.out, {dy.data(), out}, {w.data(), in});
    matmul<T>(on, dw.data(), s.out, s.in, s.rows, {dy.data(), out, true}, {x.data(), in});
    if (!dbias.empty())
        on.pool.for_ranges(out, 256, [&](std::size_t begin, std::size_t end, int) {
            wide_t<T> sums[256] = {};
            column_sums(sums, dy.data() + begin, std::size_t(s.rows), out, end - begin);
            narrow(sums, dbias.data() + begin, end - begin);
        });
}

} // namespace mpt
