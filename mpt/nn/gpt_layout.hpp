// SPDX-License-Identifier: MIT
/// @file gpt_layout.hpp
/// The shape of a GPT: its sizes, its parameters, what forward keeps.      tier 4, needs:
/// base/memory.hpp nn/params.hpp numeric/scalar.hpp
///
/// Idea     GPT-2's architecture with any number of key/value heads. Unit 0 is the embedding with
///          the last layer norm; the head borrows its token table (tied). Unit 1 + l is block l.
/// Formula  with C channels, Q = (heads + 2 kv_heads) C / heads, L layers, V words, T context:
///          parameters   V C + T C + 2 C + L (Q C + Q + 9 C C + 10 C)
///          kept a token s (2 C + V + L (13 C + Q)) + w (4 + L (4 + heads)),
///          s = bytes of the scalar type, w = bytes of the type inside (4 for fp32 and below)
/// Costs    nothing T x T is kept: attention probabilities are recomputed from lse
/// Source   Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3;
///          names of tensors as in Hugging Face's GPT-2
/// See      gpt.hpp (forward and backward), tests/nn/gpt_test.cpp
#pragma once
#include "mpt/base/memory.hpp"    // buffer, memory
#include "mpt/nn/params.hpp"      // layout
#include "mpt/numeric/scalar.hpp" // wide_t

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace mpt {

struct gpt_config {
    int layers = 4;
    int heads = 4;
    int kv_heads = 4;     // = heads: multi-head; 1: multi-query; between: grouped-query attention
    int channels = 128;   // C
    int context = 128;    // T, the most tokens a row may have
    int vocabulary = 256; // V
    float dropout = 0;    // after the embedding, in attention, and on both branches of a block

    int head_dim() const { return channels / heads; }
    int qkv() const { return (heads + 2 * kv_heads) * head_dim(); } // Q
    int hidden() const { return 4 * channels; }
};

/// Throws with the option to mend where the sizes do not fit each other.
inline void check_config(const gpt_config& c) {
    check(c.layers > 0 && c.heads > 0 && c.kv_heads > 0 && c.channels > 0 && c.context > 0 &&
              c.vocabulary > 0,
          "gpt: ", c.layers, " layers, ", c.heads, " heads, ", c.kv_heads, " key/value heads, ",
          c.channels, " channels, context ", c.context, "; every size must be 1 or more");
    check(c.channels % c.heads == 0, "gpt: ", c.channels, " channels do not divide by ", c.heads,
          " heads; choose channels as a multiple of heads");
    check(c.heads % c.kv_heads == 0, "gpt: ", c.heads, " heads do not divide by ", c.kv_heads,
          " key/value heads; choose a divisor of ", c.heads);
    check(c.dropout >= 0 && c.dropout < 1, "gpt: dropout ", c.dropout,
          "; choose from 0 up to below 1");
}

/// Numbers of the tensors of one block in the layout.
struct gpt_block_tensors {
    int ln_1_weight, ln_1_bias, qkv_weight, qkv_bias, attn_weight, attn_bias;
    int ln_2_weight, ln_2_bias, fc_weight, fc_bias, proj_weight, proj_bias;
};
/// Numbers of all tensors.
struct gpt_tensors {
    int wte, wpe, ln_f_weight, ln_f_bias; // unit 0
    std::vector<gpt_block_tensors> block; // unit 1 + l
};

/// The map of the flat buffer. Weights of linear layers are (out, in). Deviation of the initial
/// values: 0.02, and 0.02 / sqrt(2 L) where a branch joins the residual stream.
inline layout gpt_layout(const gpt_config& c, gpt_tensors& t) {
    check_config(c);
    layout map;
    const std::size_t C = std::size_t(c.channels), H = std::size_t(c.hidden());
    const std::size_t Q = std::size_t(c.qkv());
    const float std0 = 0.02f, joining = 0.02f / std::sqrt(2.0f * float(c.layers));
    map.add_unit("embedding");
    t.wte = map.add("wte.weight", {std::size_t(c.vocabulary), C}, std0);
    t.wpe = map.add("wpe.weight", {std::size_t(c.context), C}, std0);
    t.ln_f_weight = map.add("ln_f.weight", {C}, 0, 1);
    t.ln_f_bias = map.add("ln_f.bias", {C}, 0);
    t.block.clear();
    for (int l = 0; l < c.layers; ++l) {
        const std::string h = "h." + std::to_string(l) + ".";
        map.add_unit("block " + std::to_string(l));
        gpt_block_tensors b;
        b.ln_1_weight = map.add(h + "ln_1.weight", {C}, 0, 1);
        b.ln_1_bias = map.add(h + "ln_1.bias", {C}, 0);
        b.qkv_weight = map.add(h + "attn.c_attn.weight", {Q, C}, std0);
        b.qkv_bias = map.add(h + "attn.c_attn.bias", {Q}, 0);
        b.attn_weight = map.add(h + "attn.c_proj.weight", {C, C}, joining);
        b.attn_bias = map.add(h + "attn.c_proj.bias", {C}, 0);
        b.ln_2_weight = map.add(h + "ln_2.weight", {C}, 0, 1);
        b.ln_2_bias = map.add(h + "ln_2.bias", {C}, 0);
        b.fc_weight = map.add(h + "mlp.c_fc.weight", {H, C}, std0);
        b.fc_bias = map.add(h + "mlp.c_fc.bias", {H}, 0);
        b.proj_weight = map.add(h + "mlp.c_proj.weight", {C, H}, joining);
        b.proj_bias = map.add(h + "mlp.c_proj.bias", {C}, 0);
        t.block.push_back(b);
    }
    return map;
}

/// What one block's forward keeps for its backward.
template <class T>
struct gpt_block_acts {
    device_span<T> h1;                   // (B,T,C)  after the first layer norm
    device_span<T> qkv;                  // (B,T,Q)  queries, keys, values
    device_span<T> att;                  // (B,T,C)  heads side by side
    device_span<T> mid;                  // (B,T,C)  residual stream between the branches
    device_span<T> h2;                   // (B,T,C)  after the second layer norm
    device_span<T> fc, gelu;             // (B,T,4C) before and after gelu
    device_span<T> out;                  // (B,T,C)  residual stream behind the block
    device_span<wide_t<T>> mean1, rstd1; // (B,T)
    device_span<wide_t<T>> mean2, rstd2; // (B,T)
    device_span<wide_t<T>> lse;          // (B,heads,T)  log of the sum of exp of the scores
};

/// Everything a forward pass keeps, and the gradients that backward passes along (kind temp).
template <class T>
struct gpt_acts {
    using W = wide_t<T>;
    int B, T_; // rows and tokens a row that it has room for

    gpt_acts(memory& mem, const gpt_config& c, int rows, int tokens)
        : B(rows), T_(tokens), low_(mem, kind::activations, low_size(c), "activations"),
          wide_(mem, kind::activations, wide_size(c), "statistics of the activations"),
          passed_(mem, kind::temp, n() * 6 * std::size_t(c.channels), "gradients of activations") {
        check(rows > 0 && tokens > 0 && tokens <= c.context, "gpt: a batch of ", rows, " rows of ",
              tokens, " tokens; wanted 1 row or more of 1 to ", c.context, " tokens");
        device_span<T> low = low_.span();
        device_span<W> wide = wide_.span();
        const std::size_t C = n() * std::size_t(c.channels);
        embedded = take(low, C);
        for (int l = 0; l < c.layers; ++l) {
            gpt_block_acts<T> b;
            b.h1 = take(low, C);
            b.qkv = take(low, n() * std::size_t(c.qkv()));
            b.att = take(low, C);
            b.mid = take(low, C);
            b.h2 = take(low, C);
            b.fc = take(low, 4 * C);
            b.gelu = take(low, 4 * C);
            b.out = take(low, C);
            b.mean1 = take(wide, n());
            b.rstd1 = take(wide, n());
            b.mean2 = take(wide, n());
            b.rstd2 = take(wide, n());
            b.lse = take(wide, n() * std::size_t(c.heads));
            block.push_back(b);
        }
        last = take(low, C);
        logits = take(low, n() * std::size_t(c.vocabulary));
        mean = take(wide, n());
        rstd = take(wide, n());
        lse = take(wide, n());
        losses = take(wide, n());
        device_span<T> passed = passed_.span();
        dres = take(passed, C);
        dbranch = take(passed, C);
        dwide = take(passed, 4 * C);
    }

    std::size_t n() const { return std::size_t(B) * std::size_t(T_); } // tokens

    device_span<T> embedded;              // (B,T,C)  the residual stream before block 0
    std::vector<gpt_block_acts<T>> block; // one a layer
    device_span<T> last;                  // (B,T,C)  after the last layer norm
    device_span<T> logits;                // (B,T,V)  backward puts their gradient in their place
    device_span<W> mean, rstd;            // (B,T)    of the last layer norm
    device_span<W> lse, losses;           // (B,T)    of the cross-entropy
    device_span<T> dres;                  // (B,T,C)  gradient of the residual stream
    device_span<T> dbranch;               // (B,T,C)  gradient of a branch's ends
    device_span<T> dwide;                 // (B,T,4C) gradient inside a branch

private:
    std::size_t low_size(const gpt_config& c) const {
        return n() * std::size_t(2 * c.channels + c.vocabulary +
                                 c.layers * (13 * c.channels + c.qkv()));
    }
    std::size_t wide_size(const gpt_config& c) const {
        return n() * std::size_t(4 + c.layers * (4 + c.heads));
    }
    template <class X>
    static device_span<X> take(device_span<X>& from, std::size_t count) {
        const device_span<X> part = from.first(count);
        from = from.subspan(count, from.size() - count);
        return part;
    }
    buffer<T> low_;
    buffer<W> wide_;
    buffer<T> passed_;
};

} // namespace mpt
