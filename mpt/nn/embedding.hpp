// SPDX-License-Identifier: MIT
/// @file embedding.hpp
/// A row for each token plus a row for each position, and their gradients. tier 4, needs:
/// nn/cpu.hpp nn/shapes.hpp numeric/cast.hpp
///
/// Idea     Forward looks rows up. Backward adds each position's gradient to its token's row: many
///          positions share a token, so they are first chained by token, then each row is summed by
///          one worker, in the order of the positions.
/// Formula  y[b,t] = wte[token[b,t]] + wpe[t];  dwte[v] += sum of dy at the positions of token v
/// Costs    backward: embedding_scratch(), and one look at each token that does not occur
/// Breaks   adding up in 16 bits: 1.0 added 4096 times gives 256 in bf16, 2048 in fp16
/// Source   karpathy/llm.c#272 (deterministic, fp32 sums)
/// See      tests/nn/embedding_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"       // cpu: pool, scratch
#include "mpt/nn/shapes.hpp"    // embedding_shape
#include "mpt/numeric/cast.hpp" // widen, narrow, wide_t

#include <algorithm>
#include <cstddef>

namespace mpt {

/// Elements of wide_t<T> of scratch a worker needs: an int a token and one a position.
template <class T>
constexpr std::size_t embedding_scratch(embedding_shape s) {
    return std::size_t(s.V) + std::size_t(s.B) * std::size_t(s.T);
}

template <class T>
void check_embedding(device_view<T> y, device_span<const int> tokens, device_view<T> wte,
                     device_view<T> wpe, embedding_shape s) {
    const std::size_t rows = std::size_t(s.B) * std::size_t(s.T), C = std::size_t(s.C);
    check(y.size() == rows * C && tokens.size() == rows && wte.size() == std::size_t(s.V) * C &&
              wpe.size() % C == 0 && wpe.size() >= std::size_t(s.T) * C,
          "embedding: y, tokens, wte, wpe have ", y.size(), ", ", tokens.size(), ", ", wte.size(),
          ", ", wpe.size(), " elements; B ", s.B, ", T ", s.T, ", C ", s.C, ", V ", s.V, " want ",
          rows * C, ", ", rows, ", ", std::size_t(s.V) * C, ", at least ", std::size_t(s.T) * C);
}
inline void check_token(int token, std::size_t position, int V) {
    check(token >= 0 && token < V, "embedding: token ", token, " at position ", position,
          "; the vocabulary has 0 to ", V - 1);
}

/// y (B,T,C) from tokens (B,T), wte (V,C), wpe (T or more,C).
template <class T>
void embedding_forward(const cpu& on, device_span<T> y, device_span<const int> tokens,
                       device_view<T> wte, device_view<T> wpe, embedding_shape s) {
    using W = wide_t<T>;
    check_embedding<T>(y, tokens, wte, wpe, s);
    const std::size_t C = std::size_t(s.C), T_ = std::size_t(s.T);
    constexpr std::size_t block = 256;
    on.pool.for_ranges(tokens.size(), std::max<std::size_t>(1, 16384 / C),
                       [&](std::size_t begin, std::size_t end, int) {
        W token_room[block], position_room[block], out[block];
        for (std::size_t row = begin; row < end; ++row) {
            const int token = tokens.data()[row];
            check_token(token, row, s.V);
            for (std::size_t c = 0; c < C; c += block) {
                const std::size_t n = std::min(block, C - c);
                const W* a = widen(wte.data() + std::size_t(token) * C + c, n, token_room);
                const W* b = widen(wpe.data() + row % T_ * C + c, n, position_room);
                for (std::size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
                narrow(out, y.data() + row * C + c, n);
            }
        }
    });
}

/// dwte (V,C) += the sums of dy (B,T,C) by token: the tied head has written its own part before.
/// dwpe (T or more,C) = the sums by position, 0 past T. Each element is summed wide, rounded once.
template <class T>
void embedding_backward(const cpu& on, device_span<T> dwte, device_span<T> dwpe, device_view<T> dy,
                        device_span<const int> tokens, embedding_shape s) {
    using W = wide_t<T>;
    check_embedding<T>(dy, tokens, dwte, dwpe, s);
    const std::size_t C = std::size_t(s.C), T_ = std::size_t(s.T), V = std::size_t(s.V);
    constexpr std::size_t block = 256;

    // first[v]: the first position of token v, next[i]: the next position of i's token, or -1.
    // Filled from the back, so that a chain runs in the order of the positions.
    static_assert(sizeof(W) >= sizeof(int));
    int* const first = on.scratch<int>(0, embedding_scratch<T>(s)); // all workers read it
    int* const next = first + V;
    std::fill_n(first, V, -1);
    for (std::size_t i = tokens.size(); i-- > 0;) {
        const int token = tokens.data()[i];
        check_token(token, i, s.V);
        next[i] = first[token];
        first[token] = int(i);
    }
    on.pool.for_ranges(V, std::max<std::size_t>(1, V / 128),
                       [&](std::size_t begin, std::size_t end, int) {
        W sum[block], room[block];
        for (std::size_t v = begin; v < end; ++v) {
            if (first[v] < 0) continue;
            for (std::size_t c = 0; c < C; c += block) {
                const std::size_t n = std::min(block, C - c);
                std::fill_n(sum, n, W(0));
                for (int i = first[v]; i >= 0; i = next[i]) {
                    const W* d = widen(dy.data() + std::size_t(i) * C + c, n, room);
                    for (std::size_t j = 0; j < n; ++j) sum[j] += d[j];
                }
                const W* before = widen(dwte.data() + v * C + c, n, room);
                for (std::size_t j = 0; j < n; ++j) sum[j] += before[j];
                narrow(sum, dwte.data() + v * C + c, n);
            }
        }
    });
    on.pool.for_ranges(dwpe.size() / C, std::max<std::size_t>(1, 4096 / C),
                       [&](std::size_t begin, std::size_t end, int) {
        W sum[block], room[block];
        for (std::size_t t = begin; t < end; ++t)
            for (std::size_t c = 0; c < C; c += block) {
                const std::size_t n = std::min(block, C - c);
                std::fill_n(sum, n, W(0));
                for (std::size_t b = 0; t < T_ && b < std::size_t(s.B); ++b) {
                    const W* d = widen(dy.data() + (b * T_ + t) * C + c, n, room);
                    for (std::size_t j = 0; j < n; ++j) sum[j] += d[j];
                }
                narrow(sum, dwpe.data() + t * C + c, n);
            }
    });
}

} // namespace mpt
