// SPDX-License-Identifier: MIT
/// @file model_size.hpp
/// What a model makes a run hold: its parameters, and the bytes of a micro-batch.  tier 4, needs:
/// base/amount.hpp nn/checkpointing.hpp nn/gpt_layout.hpp
///
/// Idea     Three numbers decide: parameters (all that is kept for one of them is in
///          train/estimate.hpp), activations, and what is whole while units come and go.
/// Formula  P as in gpt_layout.hpp; activations and temp as in gpt_acts.hpp, n = rows * tokens;
///          in backward the embedding's gradient is collected first and ready last, so that at
///          most U + B gradients are in flight, with the weights of k blocks max(2 U, U + B + k B)
///          (U parameters of unit 0, B of a block, k blocks of a segment that is run again, or 1);
///          one unit ahead, whose weights come or gradients go meanwhile: about 2 B more
///          KV cache 2 L tokens kv_heads D rows s
/// Costs    memory: none
/// Breaks   another model than gpt.hpp's, which keeps other things: give its parameters only
/// See      train/estimate.hpp, tests/train/estimate_test.cpp (held against the ledger and against
///          a strategy that counts)
#pragma once
#include "mpt/base/amount.hpp"      // amount, div_up
#include "mpt/nn/checkpointing.hpp" // checkpointing: rooms, segments
#include "mpt/nn/gpt_layout.hpp"    // gpt_config, gpt_layout

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mpt {

/// Elements that are whole at a time in backward, at most: gradients of unit 0 (U) and of blocks
/// (B), and weights of those that are acquired.
struct flight {
    std::size_t grads = 0; // gradients alone
    std::size_t all = 0;   // gradients and weights
};

/// coming: is the next block's weight gathered while one computes? going: do the gradients of the
/// block before travel meanwhile?
inline flight units_in_flight(const checkpointing& plan, std::size_t U, std::size_t B,
                              bool coming = false, bool going = false) {
    std::vector<std::size_t> held; // blocks acquired together, in the order of backward
    for (auto g = plan.segments.rbegin(); g != plan.segments.rend(); ++g)
        for (int l = 0; l < (g->again ? 1 : g->size()); ++l)
            held.push_back(g->again ? std::size_t(g->size()) : 1);
    flight f{U + B, 2 * U + (coming ? B : 0)};
    for (std::size_t i = 0; i < held.size(); ++i) {
        const std::size_t before = going && (i > 0 || held[i] > 1) ? B : 0;
        const std::size_t next = coming && i + 1 < held.size() ? B : 0;
        f.grads = std::max(f.grads, U + B + before);
        f.all = std::max(f.all, U + B + before + held[i] * B + next);
    }
    return f;
}

struct model_size {
    std::vector<std::size_t> units;  // parameters of each: what is gathered and reduced together
    std::size_t grads_in_flight = 0; // parameters whose gradients are whole at a time, at most
    std::size_t in_flight = 0;       // ... gradients and weights
    flight going = {};               // ... where the gradients of one more block travel
    flight coming = {};              // ... or the weights of one more block
    flight both = {};                // ... or both
    std::size_t largest_layer = 0;   // parameters of the largest layer, DeepSpeed's "largest layer"
    std::size_t wide = 0;            // parameters whose moments 8-bit Adam keeps in fp32
    std::size_t blocks8 = 0;         // blocks of 256 of the others
    std::size_t activations = 0;     // bytes that forward keeps of a micro-batch
    std::size_t temp = 0;            // bytes of the gradients of activations, and of scratch
    std::size_t data = 0;            // bytes of tokens

    amount parameters() const {
        amount sum;
        for (const std::size_t u : units) sum = sum + u;
        return sum;
    }
    /// Parameters that a rank of N owns: every unit is padded to a multiple of N.
    amount shard(amount N) const {
        amount sum;
        for (const std::size_t u : units) sum = sum + div_up(u, N);
        return sum;
    }
};

/// A model of which only the number of parameters is known: one unit, nothing else.
inline model_size size_of_parameters(std::size_t P) {
    check(P > 0, "model: 0 parameters; wanted 1 or more");
    model_size m;
    m.units = {P};
    m.blocks8 = div_up(P, 256).n;
    return m;
}

/// What forward keeps of n tokens, in scalars of `s` bytes.
inline std::size_t activation_bytes(const gpt_config& c, const checkpointing& plan, amount n,
                                    std::size_t s) {
    const amount C = c.channels, Q = c.qkv(), V = c.vocabulary, H = c.heads;
    const amount N = plan.rooms(), R = plan.segments_again(), w = std::max<std::size_t>(s, 4);
    const amount norms = c.norms(), scales = c.scales(); // n and a of the card there
    const amount stream = (1 + norms) * C + V, block = (11 + 2 * norms + 2 * scales) * C + Q;
    return (n * (s * (stream + N * block + R * C) + w * (2 + 2 * norms + N * (4 * norms + H)))).n;
}

/// A GPT in scalars of `s` bytes, on micro-batches of `rows` rows of `tokens` tokens.
inline model_size size_of_gpt(const gpt_config& c, const checkpointing& plan, int rows, int tokens,
                              std::size_t s) {
    check(rows > 0 && tokens > 0 && tokens <= c.context, "model: ", rows, " rows of ", tokens,
          " tokens; wanted 1 row or more of 1 to ", c.context, " tokens");
    gpt_tensors t;
    const layout map = gpt_layout(c, t);
    model_size m;
    for (const unit_info& u : map.units) m.units.push_back(u.size());
    const auto size = [&](int tensor) { return map.tensors[std::size_t(tensor)].size; };
    for (const tensor_info& x : map.tensors) // as train/block_moments.hpp cuts them
        if (x.looked_up || x.size < 4096) {
            m.wide += x.size;
        } else {
            const std::size_t begin = x.begin - map.units[std::size_t(x.unit)].begin;
            m.blocks8 += (begin + x.size - 1) / 256 - begin / 256 + 1;
        }
    m.largest_layer =
        std::max({size(t.wte), size(t.wpe), size(t.block[0].fc_weight) + size(t.block[0].fc_bias)});
    const std::size_t U = m.units[0], B = m.units[1];
    const flight now = units_in_flight(plan, U, B);
    m.grads_in_flight = now.grads;
    m.in_flight = now.all;
    m.going = units_in_flight(plan, U, B, false, true);
    m.coming = units_in_flight(plan, U, B, true, false);
    m.both = units_in_flight(plan, U, B, true, true);

    const amount n = amount(rows) * tokens;
    m.activations = activation_bytes(c, plan, n, s);
    m.temp = (n * s * 6 * c.channels).n;
    m.data = (n * 2 * sizeof(int)).n; // inputs and targets
    return m;
}

/// Keys and values of `rows` texts of `tokens` tokens, in scalars of `s` bytes.
inline std::size_t kv_cache_bytes(const gpt_config& c, int rows, int tokens, std::size_t s) {
    return (amount(2) * c.layers * tokens * c.kv_heads * c.head_dim() * rows * s).n;
}

} // namespace mpt
