// SPDX-License-Identifier: MIT
/// @file gpt_layout.hpp
/// The shape of a GPT: its sizes and its parameters.                       tier 4, needs:
/// nn/params.hpp nn/tfixup.hpp
///
/// Idea     GPT-2's architecture with any number of key/value heads. Unit 0 is the embedding with
///          the last layer norm; the head borrows its token table (tied). Unit 1 + l is block l.
///          It may do without layer norms, and have a learnable factor for each branch.
/// Formula  with C channels, Q = (heads + 2 kv_heads) C / heads, L layers, V words, T context,
///          n = 1 with layer norms, a = 1 with residual scales, else 0: parameters
///          V C + T C + 2 n C + L (Q C + Q + 9 C C + (6 + 4 n) C + 2 a)
/// Source   Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.3;
///          names of tensors as in Hugging Face's GPT-2
/// See      gpt_acts.hpp (what forward keeps), gpt.hpp, tests/nn/gpt_test.cpp, gpt_kinds_test.cpp
#pragma once
#include "mpt/nn/params.hpp" // layout, check
#include "mpt/nn/tfixup.hpp" // xavier, tfixup_decoder

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace mpt {

struct gpt_config {
    int layers = 4;
    int heads = 4;
    int kv_heads = 4;       // = heads: multi-head; 1: multi-query; between: grouped-query attention
    int channels = 128;     // C
    int context = 128;      // T, the most tokens a row may have
    int vocabulary = 256;   // V
    float dropout = 0;      // after the embedding, in attention, and on both branches of a block
    bool layer_norm = true; // false: none, not even the last
    bool tfixup = false;    // initial values as in tfixup.hpp, else GPT-2's
    bool residual_scale = false; // x += alpha branch, alpha learnt: residual_scale.hpp
    float residual_start = 0;    // alpha's first value; ReZero: 0

    int head_dim() const { return channels / heads; }
    int qkv() const { return (heads + 2 * kv_heads) * head_dim(); } // Q
    int hidden() const { return 4 * channels; }
    int norms() const { return layer_norm ? 1 : 0; }      // n
    int scales() const { return residual_scale ? 1 : 0; } // a
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
    check(std::isfinite(c.residual_start), "gpt: residual scales begin with ", c.residual_start,
          "; choose a finite number: 0 (ReZero) or 1 (as without)");
}

/// Throws where the model has other parts than GPT-2, which `file` is to hold.
inline void check_gpt2(const gpt_config& c, const std::string& file) {
    check(c.layer_norm && !c.residual_scale, "weights ", file, ": the model has ",
          c.layer_norm ? "residual scales" : "no layer norms", "; no GPT-2 can hold it");
}

/// Numbers of the tensors of one block in the layout.
struct gpt_block_tensors {
    int ln_1_weight, ln_1_bias, qkv_weight, qkv_bias, attn_weight, attn_bias;
    int ln_2_weight, ln_2_bias, fc_weight, fc_bias, proj_weight, proj_bias;
    int scale_1, scale_2; // alpha of attention's branch and of the MLP's
};
/// Numbers of all tensors; -1 where the model has none of the kind.
struct gpt_tensors {
    int wte, wpe, ln_f_weight, ln_f_bias; // unit 0
    std::vector<gpt_block_tensors> block; // unit 1 + l
};

/// The map of the flat buffer. Weights of linear layers are (out, in). Deviation of the initial
/// values: 0.02, and 0.02 / sqrt(2 L) where a branch joins the residual stream; or T-Fixup's.
inline layout gpt_layout(const gpt_config& c, gpt_tensors& t) {
    check_config(c);
    layout map;
    const std::size_t C = std::size_t(c.channels), H = std::size_t(c.hidden());
    const std::size_t Q = std::size_t(c.qkv());
    const std::size_t KV = std::size_t(c.kv_heads) * std::size_t(c.head_dim());
    const float std0 = 0.02f, joining = 0.02f / std::sqrt(2.0f * float(c.layers));
    const float factor = float(tfixup_decoder(c.layers));
    const auto scaled = [&](std::size_t out, std::size_t in, float gpt2) { // v, out, the MLP's
        return c.tfixup ? factor * xavier(out, in) : gpt2;
    };
    const float table = c.tfixup ? factor / std::sqrt(float(C)) : std0;
    const auto norm = [&](const std::string& name, int& weight, int& bias) {
        weight = c.layer_norm ? map.add(name + ".weight", {C}, 0, 1) : -1;
        bias = c.layer_norm ? map.add(name + ".bias", {C}, 0) : -1;
    };
    const auto scale = [&](const std::string& name) {
        return c.residual_scale ? map.add(name, {1}, 0, c.residual_start) : -1;
    };
    map.add_unit("embedding");
    t.wte = map.add("wte.weight", {std::size_t(c.vocabulary), C}, table);
    t.wpe = map.add("wpe.weight", {std::size_t(c.context), C}, table);
    map.tensors[std::size_t(t.wte)].looked_up = map.tensors[std::size_t(t.wpe)].looked_up = true;
    norm("ln_f", t.ln_f_weight, t.ln_f_bias);
    t.block.clear();
    for (int l = 0; l < c.layers; ++l) {
        const std::string h = "h." + std::to_string(l) + ".";
        map.add_unit("block " + std::to_string(l));
        gpt_block_tensors b;
        norm(h + "ln_1", b.ln_1_weight, b.ln_1_bias);
        b.qkv_weight = map.add(h + "attn.c_attn.weight", {Q, C}, c.tfixup ? xavier(C, C) : std0);
        tensor_info& qkv = map.tensors.back();
        qkv.tail = c.tfixup ? KV * C : 0; // v
        qkv.tail_deviation = scaled(KV, C, std0);
        b.qkv_bias = map.add(h + "attn.c_attn.bias", {Q}, 0);
        b.attn_weight = map.add(h + "attn.c_proj.weight", {C, C}, scaled(C, C, joining));
        b.attn_bias = map.add(h + "attn.c_proj.bias", {C}, 0);
        norm(h + "ln_2", b.ln_2_weight, b.ln_2_bias);
        b.fc_weight = map.add(h + "mlp.c_fc.weight", {H, C}, scaled(H, C, std0));
        b.fc_bias = map.add(h + "mlp.c_fc.bias", {H}, 0);
        b.proj_weight = map.add(h + "mlp.c_proj.weight", {C, H}, scaled(C, H, joining));
        b.proj_bias = map.add(h + "mlp.c_proj.bias", {C}, 0);
        b.scale_1 = scale(h + "scale_1");
        b.scale_2 = scale(h + "scale_2");
        t.block.push_back(b);
    }
    return map;
}

} // namespace mpt
