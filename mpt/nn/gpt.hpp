// SPDX-License-Identifier: MIT
/// @file gpt.hpp
/// A GPT, forward and backward, for any scalar type, operations and strategy.  tier 4, needs:
/// nn/batch.hpp nn/gpt_acts.hpp nn/gpt_layout.hpp nn/shapes.hpp nn/strategy.hpp
///
/// Idea     A unit is acquired, used, released; backward says when its gradient is ready. Weights,
///          activations and their gradients are T; inside an operation everything is wide_t<T>
///          and rounded once. `ops` is the list of operations: plain loops (loops.hpp), kernels.
/// Formula  x = wte[token] + wpe[t];  a block: x += a attn(ln_1(x)), x += a' mlp(ln_2(x)), where a
///          is 1 or learnt, and ln may be left out;  logits = ln_f(x) wte^T;  loss = sum over
///          targets of -log softmax(logits)[target]: the step divides by its window's tokens
/// Costs    about 6 P + 6 L C T operations a token, a third of them forward (attention is causal)
/// Breaks   the gradient of wte comes from the head and, last, from the embedding: ready only then
/// Source   Radford et al. 2019, section 2.3; Press and Wolf 2017, arXiv:1608.05859 (tied head)
/// See      gpt_layout.hpp (sizes, parameters), gpt_acts.hpp (activations), checkpointing.hpp
///          (blocks that are run again), chapters/28_gpt.cpp, tests/nn/gpt_test.cpp
#pragma once
#include "mpt/nn/batch.hpp"      // batch
#include "mpt/nn/gpt_acts.hpp"   // gpt_acts, segment
#include "mpt/nn/gpt_layout.hpp" // gpt_config, gpt_tensors
#include "mpt/nn/shapes.hpp"     // linear_shape, attention_shape, dropout_key, ...
#include "mpt/nn/strategy.hpp"   // strategy: acquire, release, collect, ready

#include <cstdint>
#include <vector>

namespace mpt {

template <class T, class Ops>
class gpt {
public:
    /// seed: of the dropout masks. Throws where the sizes of `config` do not fit each other.
    gpt(const gpt_config& config, Ops& operations, std::uint64_t seed = 0)
        : config(config), ops(operations), map(gpt_layout(config, tensors)), seed_(seed) {}

    const gpt_config config;
    Ops& ops;
    gpt_tensors tensors;
    const layout map;

    /// The sum of the losses of the batch's targets; `acts` keeps what backward needs.
    double forward(strategy<T>& s, device_span<const T> weights, const batch& b,
                   gpt_acts<T>& acts) {
        check(b.B == acts.B && b.T == acts.T_, "gpt: a batch of (", b.B, ",", b.T,
              ") tokens for activations of (", acts.B, ",", acts.T_, "); make both the same");
        const auto unit = s.acquire(weights, 0);
        ops.embedding_forward(acts.embedded, b.inputs, view(map, unit, tensors.wte),
                              view(map, unit, tensors.wpe), table(b));            // (B,T,C)
        if (config.dropout > 0)
            ops.dropout_forward(acts.embedded, acts.embedded, config.dropout, key(b, 0), rows(b));
        s.release(0);

        device_span<const T> x = acts.embedded;
        for (int l = 0; l < config.layers; ++l) {
            const auto block = s.acquire(weights, 1 + l);
            forward_block(l, block, x, b, acts.block[std::size_t(l)]);            // (B,T,C)
            s.release(1 + l);
            x = acts.block[std::size_t(l)].out;
        }

        const auto head = s.acquire(weights, 0);
        x = normed(acts.last, acts.mean, acts.rstd, x, head, tensors.ln_f_weight, tensors.ln_f_bias,
                   b);                                                            // (B,T,C)
        ops.linear_forward(acts.logits, x, view(map, head, tensors.wte), {},
                           {n(b), config.channels, config.vocabulary});           // (B,T,V)
        s.release(0);
        ops.cross_entropy_forward(acts.losses, acts.lse, acts.logits, b.targets, n(b),
                                  config.vocabulary);                             // (B,T)
        return ops.sum(acts.losses);
    }

    /// Gradients of seed * (sum of losses), after forward on the same batch. seed: S / tokens of
    /// the window. The unit's gradients go where `s` collects them.
    void backward(strategy<T>& s, device_span<const T> weights, const batch& b, gpt_acts<T>& acts,
                  float seed, gradients<T>& grads) {
        ops.cross_entropy_backward(acts.logits, acts.logits, acts.lse, b.targets, seed, n(b),
                                   config.vocabulary);                            // (B,T,V)
        const device_span<T> d = s.collect(grads, 0);
        {
            const auto head = s.acquire(weights, 0);
            const device_span<const T> x = input(acts, config.layers);
            ops.linear_backward(config.layer_norm ? acts.dbranch : acts.dres,
                                view(map, d, tensors.wte), {}, acts.logits, after(acts.last, x),
                                view(map, head, tensors.wte),
                                {n(b), config.channels, config.vocabulary});
            if (config.layer_norm)
                ops.layernorm_backward(acts.dres, view(map, d, tensors.ln_f_weight),
                                       view(map, d, tensors.ln_f_bias), acts.dbranch, x,
                                       view(map, head, tensors.ln_f_weight), acts.mean, acts.rstd,
                                       norm(b), false);
            s.release(0);
        }
        for (auto g = acts.plan.segments.rbegin(); g != acts.plan.segments.rend(); ++g)
            backward_segment(s, weights, b, acts, *g, grads);
        if (config.dropout > 0)
            ops.dropout_backward(acts.dres, acts.dres, config.dropout, key(b, 0), rows(b));
        ops.embedding_backward(view(map, d, tensors.wte), view(map, d, tensors.wpe), acts.dres,
                               b.inputs, table(b));
        s.ready(grads, 0, b.micro);
    }

private:
    using wide = device_span<wide_t<T>>;

    // Forward again, where checkpointing says so; then backward, on the weights acquired once.
    void backward_segment(strategy<T>& s, device_span<const T> weights, const batch& b,
                          gpt_acts<T>& acts, const segment& g, gradients<T>& grads) {
        std::vector<device_span<const T>> held;
        for (int l = g.begin; g.again && l < g.end; ++l) {
            held.push_back(s.acquire(weights, 1 + l));
            gpt_block_acts<T> a = acts.block[std::size_t(l)];
            if (l + 1 == g.end) a.out = {}; // the segment's end was kept
            forward_block(l, held.back(), input(acts, l), b, a);
        }
        for (int l = g.end - 1; l >= g.begin; --l) {
            const auto w = g.again ? held[std::size_t(l - g.begin)] : s.acquire(weights, 1 + l);
            backward_block(l, w, s.collect(grads, 1 + l), input(acts, l), b, acts);
            s.release(1 + l);
            s.ready(grads, 1 + l, b.micro);
        }
    }

    void forward_block(int l, device_span<const T> w, device_span<const T> x, const batch& b,
                       const gpt_block_acts<T>& a) {
        const gpt_block_tensors& t = tensors.block[std::size_t(l)];
        const int C = config.channels;
        const auto h1 =
            normed(a.h1, a.mean1, a.rstd1, x, w, t.ln_1_weight, t.ln_1_bias, b);  // (B,T,C)
        ops.linear_forward(a.qkv, h1, view(map, w, t.qkv_weight), view(map, w, t.qkv_bias),
                           {n(b), C, config.qkv()});                              // (B,T,Q)
        ops.attention_forward(a.att, a.lse, a.qkv, heads(b), config.dropout, key(b, 1 + 3 * l));
        // Without a scale a branch's end needs no room: it goes where the sum will stand.
        const device_span<T> end1 = config.residual_scale ? a.end1 : a.mid;
        ops.linear_forward(end1, a.att, view(map, w, t.attn_weight), view(map, w, t.attn_bias),
                           {n(b), C, C});                                         // (B,T,C)
        join_stream(a.mid, x, end1, w, t.scale_1, b, 2 + 3 * l);

        const auto h2 =
            normed(a.h2, a.mean2, a.rstd2, a.mid, w, t.ln_2_weight, t.ln_2_bias, b); // (B,T,C)
        ops.linear_forward(a.fc, h2, view(map, w, t.fc_weight), view(map, w, t.fc_bias),
                           {n(b), C, config.hidden()});                           // (B,T,4C)
        ops.gelu_forward(a.gelu, a.fc);
        const device_span<T> end2 = config.residual_scale ? a.end2 : a.out;
        if (end2.empty()) return; // nobody asks for it
        ops.linear_forward(end2, a.gelu, view(map, w, t.proj_weight), view(map, w, t.proj_bias),
                           {n(b), config.hidden(), C});                           // (B,T,C)
        if (!a.out.empty()) join_stream(a.out, a.mid, end2, w, t.scale_2, b, 3 + 3 * l);
    }

    // acts.dres holds the gradient of the block's output, then of its input.
    void backward_block(int l, device_span<const T> w, device_span<T> d, device_span<const T> x,
                        const batch& b, gpt_acts<T>& acts) {
        const gpt_block_tensors& t = tensors.block[std::size_t(l)];
        const gpt_block_acts<T>& a = acts.block[std::size_t(l)];
        const int C = config.channels;
        const std::size_t tokens = std::size_t(n(b));
        const device_span<T> dqkv = acts.dwide.first(tokens * std::size_t(config.qkv()));
        const device_span<T> datt =
            acts.dwide.subspan(dqkv.size(), tokens * std::size_t(C)); // Q <= 3C

        device_span<const T> dend = leave_stream(acts, w, d, a.end2, t.scale_2, b, 3 + 3 * l);
        ops.linear_backward(acts.dwide, view(map, d, t.proj_weight), view(map, d, t.proj_bias),
                            dend, a.gelu, view(map, w, t.proj_weight), {n(b), config.hidden(), C});
        ops.gelu_backward(acts.dwide, acts.dwide, a.fc);
        ops.linear_backward(acts.dbranch, view(map, d, t.fc_weight), view(map, d, t.fc_bias),
                            acts.dwide, after(a.h2, a.mid), view(map, w, t.fc_weight),
                            {n(b), C, config.hidden()});
        add_branch(acts, w, d, a.mid, a.mean2, a.rstd2, t.ln_2_weight, t.ln_2_bias, b);

        dend = leave_stream(acts, w, d, a.end1, t.scale_1, b, 2 + 3 * l);
        ops.linear_backward(datt, view(map, d, t.attn_weight), view(map, d, t.attn_bias), dend,
                            a.att, view(map, w, t.attn_weight), {n(b), C, C});
        ops.attention_backward(dqkv, datt, a.qkv, a.att, a.lse, heads(b), config.dropout,
                               key(b, 1 + 3 * l));
        ops.linear_backward(acts.dbranch, view(map, d, t.qkv_weight), view(map, d, t.qkv_bias),
                            dqkv, after(a.h1, x), view(map, w, t.qkv_weight),
                            {n(b), C, config.qkv()});
        add_branch(acts, w, d, x, a.mean1, a.rstd1, t.ln_1_weight, t.ln_1_bias, b);
    }

    // What a branch begins with: ln(x) in h; in a model without layer norms x itself.
    device_span<const T> normed(device_span<T> h, wide mean, wide rstd, device_span<const T> x,
                                device_span<const T> w, int weight, int bias, const batch& b) {
        if (config.layer_norm)
            ops.layernorm_forward(h, mean, rstd, x, view(map, w, weight), view(map, w, bias),
                                  norm(b));
        return after(h, x);
    }
    device_span<const T> after(device_span<const T> h, device_span<const T> x) const {
        return config.layer_norm ? h : x;
    }
    // acts.dbranch, the gradient of a branch's beginning, joins that of the residual stream x.
    void add_branch(gpt_acts<T>& acts, device_span<const T> w, device_span<T> d,
                    device_span<const T> x, wide mean, wide rstd, int weight, int bias,
                    const batch& b) {
        if (config.layer_norm)
            ops.layernorm_backward(acts.dres, view(map, d, weight), view(map, d, bias),
                                   acts.dbranch, x, view(map, w, weight), mean, rstd, norm(b),
                                   true);
        else
            ops.template add<T>(acts.dres, acts.dres, acts.dbranch);
    }

    // out = x + a dropout(end), where end may be out.
    void join_stream(device_span<T> out, device_span<const T> x, device_span<const T> end,
                     device_span<const T> w, int scale, const batch& b, int layer) {
        if (config.residual_scale)
            ops.scaled_residual_forward(out, x, end, view(map, w, scale), config.dropout,
                                        key(b, layer), rows(b));
        else
            ops.residual_forward(out, x, end, config.dropout, key(b, layer), rows(b));
    }
    // The gradient of a branch's end: that of the residual stream, through scale and mask.
    device_span<const T> leave_stream(gpt_acts<T>& acts, device_span<const T> w, device_span<T> d,
                                      device_span<const T> end, int scale, const batch& b,
                                      int layer) {
        if (config.residual_scale) {
            ops.scaled_residual_backward(acts.dbranch, view(map, d, scale), acts.dres, end,
                                         view(map, w, scale), config.dropout, key(b, layer),
                                         rows(b));
            return acts.dbranch;
        }
        if (config.dropout == 0) return acts.dres;
        ops.dropout_backward(acts.dbranch, acts.dres, config.dropout, key(b, layer), rows(b));
        return acts.dbranch;
    }

    // The residual stream before block l; behind the last block for l = layers.
    device_span<const T> input(const gpt_acts<T>& acts, int l) const {
        return l == 0 ? acts.embedded : acts.block[std::size_t(l) - 1].out;
    }

    int n(const batch& b) const { return b.B * b.T; }
    layernorm_shape norm(const batch& b) const { return {n(b), config.channels}; }
    embedding_shape table(const batch& b) const {
        return {b.B, b.T, config.channels, config.vocabulary};
    }
    attention_shape heads(const batch& b) const {
        return {b.B, b.T, config.heads, config.kv_heads, config.head_dim()};
    }
    dropout_shape rows(const batch& b) const {
        return {b.B, std::size_t(b.T) * std::size_t(config.channels)};
    }
    dropout_key key(const batch& b, int layer) const { return {seed_, layer, b.step, b.sample}; }

    std::uint64_t seed_;
};

} // namespace mpt
