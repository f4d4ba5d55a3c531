// SPDX-License-Identifier: MIT
/// @file attention.hpp
/// Causal attention, with as many or fewer key/value heads as query heads. tier 4, needs:
/// nn/cpu.hpp nn/dropout.hpp nn/fast_math.hpp nn/product.hpp nn/row_math.hpp nn/shapes.hpp
/// numeric/cast.hpp
///
/// Idea     64 queries at a time against the keys they may see: the scores of a block lie in
///          scratch, the upper half of the square is never computed, and of the probabilities only
///          lse, one number a query, is kept: backward makes them again. Kv head g serves the query
///          heads g*group to (g+1)*group - 1, and its gradient is summed over them by one worker.
/// Formula  S = Q K^T / sqrt(D),  P = e^(S - lse) where j <= i, else 0,  out = P V
///          dV = P^T dO,  dS = P (dO V^T - rowsum(dO out)) / sqrt(D),  dQ = dS K,  dK = dS^T Q
/// Costs    4 T^2 D / 2 operations a head forward, 2.5 times that backward; attention_scratch()
/// Breaks   scores in fp16 (64 channels of 40 * 40); a v not finite reaches 63 earlier queries
/// Source   Dao 2023, FlashAttention-2, arXiv:2307.08691; Ainslie et al. 2023, arXiv:2305.13245
/// See      product.hpp, dropout.hpp, tests/nn/attention_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"       // cpu: pool, scratch, tf32
#include "mpt/nn/dropout.hpp"   // drop, dropout_key
#include "mpt/nn/fast_math.hpp" // fast_exp
#include "mpt/nn/product.hpp"   // product, matrix, product_scratch
#include "mpt/nn/row_math.hpp"  // row_max, row_sum
#include "mpt/nn/shapes.hpp"    // attention_shape
#include "mpt/numeric/cast.hpp" // widen, narrow, round_tf32, wide_t, MPT_RESTRICT

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace mpt {

/// Elements of a position of qkv: all q heads, then all k, then all v.
inline std::size_t qkv_width(attention_shape s) {
    return std::size_t(s.heads + 2 * s.kv_heads) * std::size_t(s.head_dim);
}
inline std::size_t heads_width(attention_shape s) { // of a position of out
    return std::size_t(s.heads) * std::size_t(s.head_dim);
}

inline constexpr int attention_block = 64; // queries at a time

/// Rows of scores are this long, so that loops over them have no rest: n up to the next multiple.
inline constexpr std::size_t scores_length(std::size_t n) {
    return (n + sum_lanes - 1) / sum_lanes * sum_lanes;
}

/// Elements of wide_t<T> of scratch a worker needs: K, V, dK, dV of a head, Q, dO, out of a block,
/// scores and their gradient, the products' panels.
template <class T>
constexpr std::size_t attention_scratch(attention_shape s) {
    const std::size_t T_ = std::size_t(s.T), D = std::size_t(s.head_dim);
    return product_scratch<wide_t<T>>() + 4 * T_ * D + 3 * attention_block * D +
           2 * attention_block * scores_length(T_);
}

template <class T>
void check_attention(device_view<T> out, device_view<wide_t<T>> lse, device_view<T> qkv,
                     attention_shape s) {
    check(s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0, "attention: ", s.heads,
          " query heads and ", s.kv_heads, " key/value heads; the latter must divide the former");
    const std::size_t rows = std::size_t(s.B) * std::size_t(s.T);
    check(qkv.size() == rows * qkv_width(s) && out.size() == rows * heads_width(s) &&
              lse.size() == rows * std::size_t(s.heads),
          "attention: out, lse, qkv have ", out.size(), ", ", lse.size(), ", ", qkv.size(),
          " elements; B ", s.B, ", T ", s.T, ", ", s.heads, " heads of ", s.head_dim, " and ",
          s.kv_heads, " kv heads want ", rows * heads_width(s), ", ", rows * std::size_t(s.heads),
          ", ", rows * qkv_width(s));
}

// Rows of D elements, `stride` apart, as operands of a product: where they lie if they are wide
// already, else widened into `room`; with tf32, rounded into it (what 16 bits hold, tf32 holds).
template <class T>
matrix<wide_t<T>> head_panel(const T* x, std::size_t stride, int rows, int D, bool tf32,
                             wide_t<T>* room) {
    const std::size_t n = std::size_t(D);
    if constexpr (std::is_same_v<T, wide_t<T>>)
        if (!(tf32 && std::is_same_v<T, float>)) return {x, stride};
    for (int r = 0; r < rows; ++r) {
        if constexpr (std::is_same_v<T, float>)
            round_tf32(x + std::size_t(r) * stride, room + std::size_t(r) * n, n);
        else
            cast(x + std::size_t(r) * stride, room + std::size_t(r) * n, n);
    }
    return {room, n};
}

template <class W>
inline void round_products(const cpu& on, W* x, std::size_t n) {
    if constexpr (std::is_same_v<W, float>)
        if (on.tf32) round_tf32(x, x, n);
}

// The scores a query may not see: e^-inf = 0 up to the end of the last whole group, 0 at once
// after it. Returns the length of what exp_row() must go over.
template <class W>
inline std::size_t hide(W* row, std::size_t seen, std::size_t stride) {
    const std::size_t length = scores_length(seen);
    std::fill(row + seen, row + length, -std::numeric_limits<W>::infinity());
    std::fill(row + length, row + stride, W(0));
    return length;
}

template <class W>
inline void exp_row(W* MPT_RESTRICT p, W scale, W shift, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) p[j] = fast_exp(p[j] * scale - shift);
}

/// out (B,T,heads*D), lse (B,heads,T) of qkv (B,T,(heads+2*kv_heads)*D). Dropout with probability p
/// on the attention probabilities: element (h*T + i)*T + j of the sample.
template <class T>
void attention_forward(const cpu& on, device_span<T> out, device_span<wide_t<T>> lse,
                       device_view<T> qkv, attention_shape s, float p = 0, dropout_key key = {}) {
    using W = wide_t<T>;
    check_attention<T>(out, lse, qkv, s);
    const int D = s.head_dim, group = s.heads / s.kv_heads;
    const std::size_t T_ = std::size_t(s.T), D_ = std::size_t(D), width = qkv_width(s);
    const W scale = W(1) / std::sqrt(W(D));

    on.pool.for_each(std::size_t(s.B) * std::size_t(s.heads), [&](std::size_t task, int worker) {
        const std::size_t b = task / std::size_t(s.heads), h = task % std::size_t(s.heads);
        const T* const q_at = qkv.data() + b * T_ * width + h * D_;
        const T* const k_at = q_at + (std::size_t(s.heads) - h + h / std::size_t(group)) * D_;
        const T* const v_at = k_at + std::size_t(s.kv_heads) * D_;
        T* const out_at = out.data() + b * T_ * heads_width(s) + h * D_;
        W* const lse_at = lse.data() + task * T_;

        W* const room = on.scratch<W>(worker, attention_scratch<T>(s)); // the products' panels
        W* const k_room = room + product_scratch<W>();                  // (T,D)
        W* const v_room = k_room + T_ * D_;                             // (T,D)
        W* const q_room = v_room + T_ * D_;                             // (64,D)
        W* const o_room = q_room + attention_block * D_;                // (64,D)
        W* const scores = o_room + attention_block * D_;                // (64,T)
        const matrix<W> k = head_panel(k_at, width, s.T, D, on.tf32, k_room);
        const matrix<W> v = head_panel(v_at, width, s.T, D, on.tf32, v_room);

        for (int i0 = 0; i0 < s.T; i0 += attention_block) {
            const int rows = std::min(attention_block, s.T - i0), end = i0 + rows;
            const std::size_t stride = scores_length(std::size_t(end)); // from score row to row
            const matrix<W> q = head_panel(q_at + std::size_t(i0) * width, width, rows, D, on.tf32,
                                           q_room);
            product<W>(rows, end, D, q, {k.data, k.stride, true}, scores, stride, false, room);
            W weight[attention_block]; // 1 / sum of the row
            for (int r = 0; r < rows; ++r) {
                W* const row = scores + std::size_t(r) * stride;
                const std::size_t seen = std::size_t(i0 + r) + 1; // keys up to the query itself
                const std::size_t length = hide(row, seen, stride);
                const W top = row_max(row, length) * scale;
                exp_row(row, scale, top, length);
                const W sum = row_sum<W>(length, [row](std::size_t j) { return row[j]; });
                lse_at[i0 + r] = top + std::log(sum);
                weight[r] = W(1) / sum;
                if (p > 0)
                    drop(row, (h * T_ + std::size_t(i0 + r)) * T_, seen, p, key, int(b));
            }
            round_products(on, scores, std::size_t(rows) * stride);
            product<W>(rows, D, end, {scores, stride}, v, o_room, D_, false, room);
            for (int r = 0; r < rows; ++r) {
                W* const row = o_room + std::size_t(r) * D_;
                for (std::size_t c = 0; c < D_; ++c) row[c] *= weight[r];
                narrow(row, out_at + std::size_t(i0 + r) * heads_width(s), D_);
            }
        }
    });
}

// ds = p (dp - d) scale, in place of dp.
template <class W>
inline void score_gradient_row(W* MPT_RESTRICT dp, const W* MPT_RESTRICT p, W d, W scale,
                               std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) dp[j] = p[j] * (dp[j] - d) * scale;
}

/// dqkv, laid out as qkv, from dout and what forward was given and returned.
template <class T>
void attention_backward(const cpu& on, device_span<T> dqkv, device_view<T> dout, device_view<T> qkv,
                        device_view<T> out, device_view<wide_t<T>> lse, attention_shape s,
                        float p = 0, dropout_key key = {}) {
    using W = wide_t<T>;
    check_attention<T>(out, lse, qkv, s);
    check_attention<T>(dout, lse, dqkv, s);
    const int D = s.head_dim, group = s.heads / s.kv_heads;
    const std::size_t T_ = std::size_t(s.T), D_ = std::size_t(D);
    const std::size_t width = qkv_width(s), out_width = heads_width(s);
    const W scale = W(1) / std::sqrt(W(D));

    // One task a kv head: it alone writes that head's dk and dv, query heads and blocks in order.
    on.pool.for_each(std::size_t(s.B) * std::size_t(s.kv_heads), [&](std::size_t task, int worker) {
        const std::size_t b = task / std::size_t(s.kv_heads), g = task % std::size_t(s.kv_heads);
        const std::size_t sample = b * T_ * width;
        const std::size_t k_column = (std::size_t(s.heads) + g) * D_;
        const std::size_t v_column = k_column + std::size_t(s.kv_heads) * D_;

        W* const room = on.scratch<W>(worker, attention_scratch<T>(s)); // the products' panels
        W* const k_room = room + product_scratch<W>();                  // (T,D)
        W* const v_room = k_room + T_ * D_;                             // (T,D)
        W* const dk = v_room + T_ * D_;                                 // (T,D)
        W* const dv = dk + T_ * D_;                                     // (T,D)
        W* const q_room = dv + T_ * D_;                                 // (64,D)
        W* const do_room = q_room + attention_block * D_;               // (64,D)
        W* const o_room = do_room + attention_block * D_;               // (64,D): out, then dq
        W* const scores = o_room + attention_block * D_;                // (64,T): S, then P
        W* const ds = scores + attention_block * scores_length(T_);     // (64,T): dP, then dS
        const T* const k_at = qkv.data() + sample + k_column;
        const T* const v_at = qkv.data() + sample + v_column;
        const matrix<W> k = head_panel(k_at, width, s.T, D, on.tf32, k_room);
        const matrix<W> v = head_panel(v_at, width, s.T, D, on.tf32, v_room);
        std::fill_n(dk, T_ * D_, W(0));
        std::fill_n(dv, T_ * D_, W(0));

        for (std::size_t h = g * std::size_t(group); h < (g + 1) * std::size_t(group); ++h) {
            const W* const lse_at = lse.data() + (b * std::size_t(s.heads) + h) * T_;
            for (int i0 = 0; i0 < s.T; i0 += attention_block) {
                const int rows = std::min(attention_block, s.T - i0), end = i0 + rows;
                const std::size_t stride = scores_length(std::size_t(end)), first = std::size_t(i0);
                const std::size_t q_at = sample + first * width + h * D_;
                const std::size_t out_at = (b * T_ + first) * out_width + h * D_;
                const matrix<W> q = head_panel(qkv.data() + q_at, width, rows, D, on.tf32, q_room);
                const matrix<W> d_o =
                    head_panel(dout.data() + out_at, out_width, rows, D, on.tf32, do_room);
                product<W>(rows, end, D, q, {k.data, k.stride, true}, scores, stride, false, room);
                product<W>(rows, end, D, d_o, {v.data, v.stride, true}, ds, stride, false, room);

                W d[attention_block]; // rowsum(dO out)
                for (int r = 0; r < rows; ++r) {
                    const std::size_t at = out_at + std::size_t(r) * out_width;
                    const W* o = widen(out.data() + at, D_, o_room);
                    const W* go = widen(dout.data() + at, D_, o_room + D_);
                    d[r] = row_sum<W>(D_, [o, go](std::size_t c) { return o[c] * go[c]; });
                }
                for (int r = 0; r < rows; ++r) {
                    W* const probability = scores + std::size_t(r) * stride;
                    W* const gradient = ds + std::size_t(r) * stride;
                    const std::size_t seen = first + std::size_t(r) + 1;
                    const std::size_t element = (h * T_ + first + std::size_t(r)) * T_;
                    const std::size_t length = hide(probability, seen, stride);
                    exp_row(probability, scale, lse_at[first + std::size_t(r)], length);
                    if (p > 0) drop(gradient, element, seen, p, key, int(b)); // through the mask
                    score_gradient_row(gradient, probability, d[r], scale, length);
                    std::fill(gradient + seen, gradient + stride, W(0));
                    if (p > 0) drop(probability, element, seen, p, key, int(b));
                }
                round_products(on, scores, std::size_t(rows) * stride);
                round_products(on, ds, std::size_t(rows) * stride);
                product<W>(end, D, rows, {scores, stride, true}, d_o, dv, D_, true, room);
                product<W>(end, D, rows, {ds, stride, true}, q, dk, D_, true, room);
                product<W>(rows, D, end, {ds, stride}, k, o_room, D_, false, room);
                for (int r = 0; r < rows; ++r)
                    narrow(o_room + std::size_t(r) * D_,
                           dqkv.data() + q_at + std::size_t(r) * width, D_);
            }
        }
        for (std::size_t t = 0; t < T_; ++t) {
            narrow(dk + t * D_, dqkv.data() + sample + t * width + k_column, D_);
            narrow(dv + t * D_, dqkv.data() + sample + t * width + v_column, D_);
        }
    });
}

} // namespace mpt
