// SPDX-License-Identifier: MIT
/// @file gpt_layout.hpp
/// The shape of a GPT: its sizes and its parameters.        tier 4, needs: nn/params.hpp
///
/// Idea     GPT-2's architecture with any number of key/value heads. Unit 0 is the embedding with
///          the last layer norm; the head borrows its token table (tied). Unit 1 + l is block l.
/// Formula  with C channels, Q = (heads + 2 kv_heads) C / heads, L layers, V words, T context:
///          parameters   V C + T C + 2 C + L (Q C + Q + 9 C C + 10 C)
/// Source   Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3;
///          names of tensors as in Hugging Face's GPT-2
/// See      gpt_acts.hpp (what forward keeps), gpt.hpp, tests/nn/gpt_test.cpp
#pragma once
#include "mpt/nn/params.hpp" // layout, check

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
    map.tensors[std::size_t(t.wte)].looked_up = map.tensors[std::size_t(t.wpe)].looked_up = true;
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

} // namespace mpt
