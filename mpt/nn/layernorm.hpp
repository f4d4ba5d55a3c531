// SPDX-License-Identifier: MIT
/// @file layernorm.hpp
/// Rows brought to mean 0 and variance 1, then scaled and shifted.         tier 4, needs:
/// nn/cpu.hpp nn/row_math.hpp nn/shapes.hpp numeric/cast.hpp
///
/// Idea     Whatever the scale of the activations, the next layer sees numbers around 1. mean and
///          1/deviation of every row are kept for the backward pass.
/// Formula  y = (x - mean) rstd gamma + beta,  rstd = 1/sqrt(mean((x - mean)^2) + 1e-5)
///          n = (x - mean) rstd,  g = dy gamma:   dx = rstd (g - mean(g) - n mean(g n))
///          dgamma = sum over rows of dy n,  dbeta = sum over rows of dy
/// Costs    forward: 1 read, 1 write an element; backward: 2 reads, 1 write; 8 bytes a row
/// Breaks   squares in fp16: 300 squared is infinity there; E[x^2] - mean^2 cancels
/// Source   Ba, Kiros, Hinton 2016, arXiv:1607.06450; microsoft/onnxruntime#29034 (the squares)
/// See      row_math.hpp, tests/nn/layernorm_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"       // cpu: pool, scratch
#include "mpt/nn/row_math.hpp"  // row_sum
#include "mpt/nn/shapes.hpp"    // layernorm_shape
#include "mpt/numeric/cast.hpp" // widen, narrow, wide_t, MPT_RESTRICT

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

namespace mpt {

inline constexpr double layernorm_epsilon = 1e-5;

/// Backward sums dgamma and dbeta over this many parts of the rows, then over the parts.
inline constexpr std::size_t layernorm_parts = 32;

/// Elements of wide_t<T> of scratch a worker needs.
template <class T>
constexpr std::size_t layernorm_scratch(layernorm_shape s) {
    // dgamma and dbeta of the parts of the rows; x, dy, gamma, result (forward: as many)
    return (layernorm_parts * 2 + 4) * std::size_t(s.channels);
}

template <class T>
void check_layernorm(device_view<T> y, device_view<wide_t<T>> mean, device_view<wide_t<T>> rstd,
                     device_view<T> x, device_view<T> gamma, device_view<T> beta,
                     layernorm_shape s) {
    const std::size_t n = std::size_t(s.channels), rows = std::size_t(s.rows);
    check(x.size() == rows * n && y.size() == rows * n && mean.size() == rows &&
              rstd.size() == rows && gamma.size() == n && beta.size() == n,
          "layernorm: y, mean, rstd, x, gamma, beta have ", y.size(), ", ", mean.size(), ", ",
          rstd.size(), ", ", x.size(), ", ", gamma.size(), ", ", beta.size(), " elements; ", rows,
          " rows of ", n, " channels want ", rows * n, ", ", rows, ", ", rows, ", ", rows * n,
          ", ", n, ", ", n);
}
template <class T>
void check_layernorm_backward(device_view<T> dx, device_view<T> dgamma, device_view<T> dbeta,
                              device_view<T> dy, device_view<T> x, device_view<T> gamma,
                              device_view<wide_t<T>> mean, device_view<wide_t<T>> rstd,
                              layernorm_shape s) {
    const std::size_t n = std::size_t(s.channels), rows = std::size_t(s.rows);
    check(dx.size() == rows * n && dy.size() == rows * n && x.size() == rows * n &&
              dgamma.size() == n && dbeta.size() == n && gamma.size() == n &&
              mean.size() == rows && rstd.size() == rows,
          "layernorm: dx, dgamma, dbeta, dy, x, gamma, mean, rstd have ", dx.size(), ", ",
          dgamma.size(), ", ", dbeta.size(), ", ", dy.size(), ", ", x.size(), ", ", gamma.size(),
          ", ", mean.size(), ", ", rstd.size(), " elements; wanted are rows ", rows,
          " and channels ", n);
}

// Rows of a task: an eighth of all, within 16 K to 64 K elements. The first rows of a task are not
// called ahead, so tasks are not short.
inline std::size_t rows_grain(layernorm_shape s) {
    const std::size_t n = std::size_t(std::max(s.channels, 1));
    return std::clamp<std::size_t>(std::size_t(s.rows) / 8, std::max<std::size_t>(16384 / n, 1),
                                   std::max<std::size_t>(65536 / n, 1));
}

// Where to compute a result: in its own place if that is wide, else in `room`, to be narrowed.
template <class T>
wide_t<T>* written(T* place, wide_t<T>* room) {
    if constexpr (std::is_same_v<T, wide_t<T>>)
        return place;
    else
        return room;
}

template <class W>
inline W row_mean(const W* x, std::size_t n) {
    return row_sum<W>(n, [x](std::size_t i) { return x[i]; }) / W(n);
}
template <class W>
inline W row_rstd(const W* x, W mean, std::size_t n) {
    const W square = row_sum<W>(n, [x, mean](std::size_t i) {
        return (x[i] - mean) * (x[i] - mean);
    });
    return W(1) / std::sqrt(square / W(n) + W(layernorm_epsilon));
}
// next: a row that is called into the cache meanwhile, a line at a time: here nothing waits for
// memory. Past the end of x it does no harm.
template <class W>
inline void layernorm_row(W* MPT_RESTRICT y, const W* MPT_RESTRICT x, W mean, W rstd,
                          const W* MPT_RESTRICT gamma, const W* MPT_RESTRICT beta, std::size_t n,
                          const W* next) {
    constexpr std::size_t line = 64 / sizeof(W);
    std::size_t i = 0;
    for (; n - i >= line; i += line) {
        __builtin_prefetch(next + i);
        for (std::size_t j = i; j < i + line; ++j)
            y[j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
    }
    for (; i < n; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
}

/// y (rows,C), mean (rows), rstd (rows) of x (rows,C); gamma, beta (C). y is not x.
template <class T>
void layernorm_forward(const cpu& on, device_span<T> y, device_span<wide_t<T>> mean,
                       device_span<wide_t<T>> rstd, device_view<T> x, device_view<T> gamma,
                       device_view<T> beta, layernorm_shape s) {
    using W = wide_t<T>;
    const std::size_t n = std::size_t(s.channels), rows = std::size_t(s.rows);
    check_layernorm<T>(y, mean, rstd, x, gamma, beta, s);
    on.pool.for_ranges(rows, rows_grain(s), [&](std::size_t begin, std::size_t end,
                                                         int worker) {
        W* const room = on.scratch<W>(worker, layernorm_scratch<T>(s));
        const W* g = widen(gamma.data(), n, room);
        const W* b = widen(beta.data(), n, room + n);
        for (std::size_t r = begin; r < end; ++r) {
            T* const place = y.data() + r * n;
            const W* const in = widen(x.data() + r * n, n, room + 3 * n);
            W* const out = written<T>(place, room + 2 * n);
            const W m = mean.data()[r] = row_mean(in, n);
            const W scale = rstd.data()[r] = row_rstd(in, m, n);
            layernorm_row(out, in, m, scale, g, b, n, r + 2 < end ? in + 2 * n : in);
            narrow(out, place, n);
        }
    });
}

// One row: dx, or += it, and the row's terms of dgamma and dbeta added to the sums.
template <bool accumulate, class W>
inline void layernorm_gradient_row(W* MPT_RESTRICT dx, W* MPT_RESTRICT dgamma,
                                   W* MPT_RESTRICT dbeta, const W* MPT_RESTRICT dy,
                                   const W* MPT_RESTRICT x, const W* MPT_RESTRICT gamma, W mean,
                                   W rstd, std::size_t n) {
    const W first = row_sum<W>(n, [=](std::size_t i) { return dy[i] * gamma[i]; }) / W(n);
    const W second = row_sum<W>(n, [=](std::size_t i) {
        return dy[i] * gamma[i] * ((x[i] - mean) * rstd);
    }) / W(n);
    for (std::size_t i = 0; i < n; ++i) {
        const W normal = (x[i] - mean) * rstd;
        dgamma[i] += dy[i] * normal;
        dbeta[i] += dy[i];
        const W g = rstd * (dy[i] * gamma[i] - first - normal * second);
        dx[i] = accumulate ? dx[i] + g : g;
    }
}

/// dx (rows,C) = the gradient of x, or += it when `accumulate`; dgamma, dbeta (C) = theirs.
/// dx may be dy unless it accumulates.
template <class T>
void layernorm_backward(const cpu& on, device_span<T> dx, device_span<T> dgamma,
                        device_span<T> dbeta, device_view<T> dy, device_view<T> x,
                        device_view<T> gamma, device_view<wide_t<T>> mean,
                        device_view<wide_t<T>> rstd, layernorm_shape s, bool accumulate) {
    using W = wide_t<T>;
    const std::size_t n = std::size_t(s.channels), rows = std::size_t(s.rows);
    check_layernorm_backward<T>(dx, dgamma, dbeta, dy, x, gamma, mean, rstd, s);
    // The rows in at most 32 parts, whatever the number of threads; each has sums of its own.
    const std::size_t part =
        std::max<std::size_t>(16, (rows + layernorm_parts - 1) / layernorm_parts);
    const std::size_t parts = (rows + part - 1) / part;
    W* const sums = on.scratch<W>(0, layernorm_scratch<T>(s)); // (parts,2,C), all workers write it
    on.pool.for_ranges(rows, part, [&](std::size_t begin, std::size_t end, int worker) {
        W* const dg = sums + begin / part * 2 * n;
        W* const db = dg + n;
        std::fill_n(dg, 2 * n, W(0));
        W* const room = on.scratch<W>(worker, layernorm_scratch<T>(s)) + layernorm_parts * 2 * n;
        const W* g = widen(gamma.data(), n, room);
        const bool in_place = dx.data() == dy.data(); // a row of dy is read to the end first
        for (std::size_t r = begin; r < end; ++r) {
            const W* in = widen(x.data() + r * n, n, room + 2 * n);
            const W* d = widen(dy.data() + r * n, n, room + 3 * n);
            T* const place = dx.data() + r * n;
            W* const out = in_place ? room + n : written<T>(place, room + n);
            const W m = mean.data()[r], scale = rstd.data()[r];
            if (accumulate) {
                if (!std::is_same_v<T, W>) widen(place, n, out);
                layernorm_gradient_row<true>(out, dg, db, d, in, g, m, scale, n);
            } else {
                layernorm_gradient_row<false>(out, dg, db, d, in, g, m, scale, n);
            }
            narrow(out, place, n);
        }
    });
    on.pool.for_ranges(2 * n, 256, [&](std::size_t begin, std::size_t end, int) {
        W total[256] = {};
        for (std::size_t p = 0; p < parts; ++p)
            for (std::size_t i = begin; i < end; ++i) total[i - begin] += sums[p * 2 * n + i];
        for (std::size_t i = begin; i < end; ++i)
            (i < n ? dgamma.data()[i] : dbeta.data()[i - n]) = narrow<T>(total[i - begin]);
    });
}

} // namespace mpt
