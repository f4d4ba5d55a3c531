// SPDX-License-Identifier: MIT
/// @file shapes.hpp
/// The sizes that an operation is given, the same for loops and kernels.   tier 4, needs: std only
///
/// Idea     A model names its operations with these; loops.hpp and a list of kernels take them
///          alike.
/// See      linear.hpp, layernorm.hpp, embedding.hpp, attention.hpp, dropout.hpp
#pragma once
#include <cstddef>
#include <cstdint>

namespace mpt {

struct linear_shape {
    int rows, in, out; // x (rows,in), w (out,in), bias (out), y (rows,out)
};

struct layernorm_shape {
    int rows, channels; // x, y (rows,channels); mean, rstd (rows)
};

struct embedding_shape {
    int B, T, C, V; // tokens (B,T), wte (V,C), wpe (T or more,C), y (B,T,C)
};

struct attention_shape {
    int B, T, heads, kv_heads, head_dim; // qkv (B,T,(heads + 2 kv_heads) head_dim): q, then k, v
};

/// Which masks are drawn: the same key, the same masks.
struct dropout_key {
    std::uint64_t seed;
    int layer;   // each use in a model has its own
    long step;   // attempted steps before this one
    long sample; // of row 0 in the whole window: ranks and micro-batches draw the joined
                 // batch's masks
};

struct dropout_shape {
    int samples;            // rows of the batch
    std::size_t per_sample; // elements of one
};

} // namespace mpt
