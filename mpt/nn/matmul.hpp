// SPDX-License-Identifier: MIT
/// @file matmul.hpp
/// A matrix product over threads, in any scalar type, rounded once.        tier 4, needs:
/// nn/cpu.hpp nn/product.hpp numeric/cast.hpp numeric/scalar.hpp
///
/// Idea     C is cut into tiles by its shape alone; a worker does a whole tile. Wide operands
///          (fp32, fp64) go to product() where they lie. 16-bit operands are widened a panel at a
///          time into the worker's scratch, summed in fp32, and each element of C is rounded once,
///          at the end.
/// Formula  c(m,n) = round( sum over k of wide(a(m,k)) wide(b(k,n)) + bias(n) )
///          with tf32, wide(x) = x rounded to 10 mantissa bits
/// Costs    matmul_scratch() a worker: it does not grow with the matrices
/// Breaks   a CPU without 16-bit arithmetic gains memory from 16-bit operands, not time
/// Source   NVIDIA A100 whitepaper (TF32: operands rounded, products exact, sums in fp32)
/// See      linear.hpp (its main user), tests/nn/matmul_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"         // cpu: pool, scratch, tf32
#include "mpt/nn/product.hpp"     // product, matrix: one thread, wide scalars
#include "mpt/numeric/cast.hpp"   // widen, narrow, round_tf32
#include "mpt/numeric/scalar.hpp" // wide_t

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace mpt {

// Tiles: large enough that packing costs little, small enough that two cores share a (256,384)
// result.
inline constexpr int matmul_rows = 512, matmul_cols = 384, matmul_depth = 512;

/// Elements of wide_t<T> that matmul() needs as a worker's scratch.
template <class T>
constexpr std::size_t matmul_scratch() {
    return product_scratch<wide_t<T>>() + std::size_t(matmul_rows) * matmul_depth +
           std::size_t(matmul_depth) * matmul_cols + std::size_t(matmul_rows) * matmul_cols;
}

// A (rows, cols) panel of x from (i, j) on, widened row by row as it lies in memory, into `room`.
template <class T>
matrix<wide_t<T>> widened(const matrix<T>& x, int i, int j, int rows, int cols, bool tf32,
                          wide_t<T>* room) {
    const T* from = x.at(std::size_t(i), std::size_t(j));
    const int lines = x.transposed ? cols : rows, length = x.transposed ? rows : cols;
    for (int line = 0; line < lines; ++line) {
        wide_t<T>* to = room + std::size_t(line) * length;
        const T* row = from + std::size_t(line) * x.stride;
        if constexpr (std::is_same_v<T, float>) {
            if (tf32)
                round_tf32(row, to, std::size_t(length));
            else
                std::copy_n(row, length, to);
        } else {
            cast(row, to, std::size_t(length));
        }
    }
    return {room, std::size_t(length), x.transposed};
}

/// c (m,n), contiguous, = a (m,k) b (k,n) + bias (n) where bias is not null.
template <class T>
void matmul(const cpu& on, T* c, int m, int n, int k, matrix<T> a, matrix<T> b,
            const T* bias = nullptr) {
    using W = wide_t<T>;
    const bool direct = std::is_same_v<T, W> && !(on.tf32 && std::is_same_v<T, float>);
    const int cols = n < 4 * matmul_cols ? matmul_cols / 2 : matmul_cols;
    const int across = (n + cols - 1) / cols, down = (m + matmul_rows - 1) / matmul_rows;

    on.pool.for_each(std::size_t(across) * std::size_t(down), [&](std::size_t task, int worker) {
        const int i = int(task) / across * matmul_rows, rows = std::min(matmul_rows, m - i);
        const int j = int(task) % across * cols, width = std::min(cols, n - j);
        W* const room = on.scratch<W>(worker, matmul_scratch<T>()); // product()'s own
        W* const a_room = room + product_scratch<W>();              // (rows, depth)
        W* const b_room = a_room + std::size_t(matmul_rows) * matmul_depth; // (depth, cols)
        W* const c_room = b_room + std::size_t(matmul_depth) * matmul_cols; // (rows, cols)
        T* const out = c + std::size_t(i) * n + j;

        W* sum = c_room;
        std::size_t stride = std::size_t(width);
        if constexpr (std::is_same_v<T, W>) { // sum where the result lies
            sum = out;
            stride = std::size_t(n);
        }
        if (direct) {
            if constexpr (std::is_same_v<T, W>)
                product<W>(rows, width, k, {a.at(i, 0), a.stride, a.transposed},
                           {b.at(0, j), b.stride, b.transposed}, sum, stride, false, room);
        } else {
            for (int p = 0; p < k || p == 0; p += matmul_depth) {
                const int depth = std::min(matmul_depth, k - p);
                product<W>(rows, width, depth, widened(a, i, p, rows, depth, on.tf32, a_room),
                           widened(b, p, j, depth, width, on.tf32, b_room), sum, stride, p > 0,
                           room);
            }
        }
        for (int r = 0; r < rows; ++r) {
            W* row = sum + r * stride;
            if (bias)
                for (int q = 0; q < width; ++q) row[q] += widen(bias[j + q]);
            narrow(row, out + std::size_t(r) * n, std::size_t(width));
        }
    });
}

} // namespace mpt
