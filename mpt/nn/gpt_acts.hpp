// SPDX-License-Identifier: MIT
/// @file gpt_acts.hpp
/// What a GPT's forward keeps for its backward.                             tier 4, needs:
/// base/memory.hpp nn/checkpointing.hpp nn/gpt_layout.hpp numeric/scalar.hpp
///
/// Idea     A block's activations are views of one of N rooms. Without checkpointing each block has
///          its own. Blocks that are run again share rooms; where such a segment ends, the residual
///          stream, input of the next, has a place of its own.
/// Formula  with C channels, Q = (heads + 2 kv_heads) C / heads, V words; N rooms and R inputs of
///          checkpointing.hpp, N = layers and R = 0 without; n, a of gpt_layout.hpp, 1 and 0 in
///          GPT-2: kept a token, with s bytes a scalar and w a number of the type inside (4 mostly)
///          s ((1 + n) C + V + N ((11 + 2 n + 2 a) C + Q) + R C) + w (2 + 2 n + N (4 n + heads)):
///          GPT-2's s (2 C + V + N (13 C + Q) + R C) + w (4 + N (4 + heads))
/// Costs    nothing T x T is kept: attention probabilities are recomputed from lse
/// Breaks   a plan for another number of layers: refused
/// Source   Korthikanti et al. 2022, arXiv:2205.05198: attention's inside is what pays most to
///          recompute; that is done here in every plan, "none" included
/// See      gpt.hpp (who fills it), tests/nn/gpt_test.cpp, tests/nn/checkpointing_test.cpp
#pragma once
#include "mpt/base/memory.hpp"      // buffer, memory
#include "mpt/nn/checkpointing.hpp" // checkpointing: segments, rooms
#include "mpt/nn/gpt_layout.hpp"    // gpt_config
#include "mpt/numeric/scalar.hpp"   // wide_t

#include <cstddef>
#include <utility>
#include <vector>

namespace mpt {

/// What one block's forward computes and its backward reads. Empty: what the model has not.
template <class T>
struct gpt_block_acts {
    device_span<T> h1;                   // (B,T,C)  after the first layer norm
    device_span<T> qkv;                  // (B,T,Q)  queries, keys, values
    device_span<T> att;                  // (B,T,C)  heads side by side
    device_span<T> mid;                  // (B,T,C)  residual stream between the branches
    device_span<T> h2;                   // (B,T,C)  after the second layer norm
    device_span<T> fc, gelu;             // (B,T,4C) before and after gelu
    device_span<T> out;                  // (B,T,C)  residual stream behind the block
    device_span<T> end1, end2;           // (B,T,C)  ends of the branches, for their scales
    device_span<wide_t<T>> mean1, rstd1; // (B,T)
    device_span<wide_t<T>> mean2, rstd2; // (B,T)
    device_span<wide_t<T>> lse;          // (B,heads,T)  log of the sum of exp of the scores
};

/// Everything a forward pass keeps, and the gradients that backward passes along (kind temp).
template <class T>
struct gpt_acts {
    using W = wide_t<T>;
    int B, T_;          // rows and tokens a row that it has room for
    checkpointing plan; // which blocks are run again

    /// how: without it every block keeps its activations.
    gpt_acts(memory& mem, const gpt_config& c, int rows, int tokens, checkpointing how = {})
        : B(rows), T_(tokens),
          plan(how.segments.empty() ? checkpointing::none(c.layers) : std::move(how)),
          low_(mem, kind::activations, low_size(c), "activations"),
          wide_(mem, kind::activations, wide_size(c), "statistics of the activations"),
          passed_(mem, kind::temp, n() * 6 * std::size_t(c.channels), "gradients of activations") {
        check(rows > 0 && tokens > 0 && tokens <= c.context, "gpt: a batch of ", rows, " rows of ",
              tokens, " tokens; wanted 1 row or more of 1 to ", c.context, " tokens");
        check(plan.blocks() == c.layers, "gpt: checkpointing for ", plan.blocks(),
              " blocks in a model of ", c.layers, "; make the plan for this model");
        device_span<T> low = low_.span();
        device_span<W> wide = wide_.span();
        const std::size_t C = n() * std::size_t(c.channels);
        const std::size_t normed = C * std::size_t(c.norms()); // none without layer norms
        const std::size_t of_norm = n() * std::size_t(c.norms());
        embedded = take(low, C);
        std::vector<gpt_block_acts<T>> room;
        for (int i = 0; i < plan.rooms(); ++i) {
            gpt_block_acts<T> b;
            b.h1 = take(low, normed);
            b.qkv = take(low, n() * std::size_t(c.qkv()));
            b.att = take(low, C);
            b.mid = take(low, C);
            b.h2 = take(low, normed);
            b.fc = take(low, 4 * C);
            b.gelu = take(low, 4 * C);
            b.out = take(low, C);
            b.end1 = take(low, C * std::size_t(c.scales()));
            b.end2 = take(low, C * std::size_t(c.scales()));
            b.mean1 = take(wide, of_norm);
            b.rstd1 = take(wide, of_norm);
            b.mean2 = take(wide, of_norm);
            b.rstd2 = take(wide, of_norm);
            b.lse = take(wide, n() * std::size_t(c.heads));
            room.push_back(b);
        }
        for (const segment& g : plan.segments) {
            for (int i = 0; i < g.size(); ++i) block.push_back(room[std::size_t(g.room + i)]);
            if (g.again) block.back().out = take(low, C); // the room is overwritten, this stays
        }
        last = take(low, normed);
        logits = take(low, n() * std::size_t(c.vocabulary));
        mean = take(wide, of_norm);
        rstd = take(wide, of_norm);
        lse = take(wide, n());
        losses = take(wide, n());
        device_span<T> passed = passed_.span();
        dres = take(passed, C);
        dbranch = take(passed, C);
        dwide = take(passed, 4 * C);
    }

    std::size_t n() const { return std::size_t(B) * std::size_t(T_); } // tokens

    device_span<T> embedded;              // (B,T,C)  the residual stream before block 0
    std::vector<gpt_block_acts<T>> block; // one a layer; layers share rooms as `plan` says
    device_span<T> last;                  // (B,T,C)  after the last layer norm
    device_span<T> logits;                // (B,T,V)  backward puts their gradient in their place
    device_span<W> mean, rstd;            // (B,T)    of the last layer norm
    device_span<W> lse, losses;           // (B,T)    of the cross-entropy
    device_span<T> dres;                  // (B,T,C)  gradient of the residual stream
    device_span<T> dbranch;               // (B,T,C)  gradient of a branch's ends
    device_span<T> dwide;                 // (B,T,4C) gradient inside a branch

private:
    std::size_t low_size(const gpt_config& c) const {
        const int block = (11 + 2 * c.norms() + 2 * c.scales()) * c.channels + c.qkv();
        return n() * std::size_t((1 + c.norms()) * c.channels + c.vocabulary +
                                 plan.rooms() * block + plan.segments_again() * c.channels);
    }
    std::size_t wide_size(const gpt_config& c) const {
        return n() * std::size_t(2 + 2 * c.norms() + plan.rooms() * (4 * c.norms() + c.heads));
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
