// SPDX-License-Identifier: MIT
// gpt_step.hpp -- one training step of a GPT as the main program does it, on made-up tokens.
#pragma once
#include "mpt/base/memory.hpp"          // memory, buffer
#include "mpt/base/thread_pool.hpp"     // thread_pool
#include "mpt/dist/one_rank.hpp"        // one_rank
#include "mpt/nn/gpt.hpp"               // gpt: forward, backward
#include "mpt/nn/gpt_scratch.hpp"       // gpt_scratch
#include "mpt/nn/loops.hpp"             // loops
#include "mpt/train/adamw.hpp"          // adamw
#include "mpt/train/clip.hpp"           // clip_factor
#include "mpt/train/inspect.hpp"        // inspect, norm
#include "mpt/train/master_weights.hpp" // master_of, master_size, cast

namespace bench {

template <class T>
struct gpt_step {
    gpt_step(const mpt::gpt_config& c, int B, int T_, int threads, int micro_batches = 1,
             const mpt::checkpointing& plan = {})
        : pool(threads), ops(pool, mem, mpt::gpt_scratch<T>(c, B, T_)), model(c, ops),
          strategy(ops, model.map), P(model.map.size()),
          weights(mem, mpt::kind::weights, P, "weights"),
          grads(mem, mpt::kind::grads, P, "gradients"),
          sums(mem, mpt::kind::sums, micro_batches > 1 ? P : 0, "sums of gradients"),
          master(mem, mpt::kind::master, mpt::master_size<T>(P), "master weights"),
          m(mem, mpt::kind::moments, P, "m"), v(mem, mpt::kind::moments, P, "v"),
          tokens(mem, mpt::kind::data, 2 * std::size_t(B) * std::size_t(T_), "tokens"),
          acts(mem, c, B, T_, plan),
          micro_batches(micro_batches), owned{mpt::master_of(master.span(),
                                                             strategy.mine(weights.span())),
                                              m.span(), v.span(), strategy.mine(weights.span())} {
        const std::size_t n = tokens.size() / 2;
        for (std::size_t i = 0; i < 2 * n; ++i)
            tokens.span().data()[i] = int(mpt::philox({{std::uint32_t(i), 0, 0, 0}}, 1, 2).x[0] %
                                          std::uint32_t(c.vocabulary));
        at = {tokens.span().first(n), tokens.span().subspan(n, n), B, T_, 0, 0, 0};
        for (const auto& piece : owned.master) // uniform, as wide as normal(0, 0.02)
            pool.for_ranges(piece.data.size(), 1 << 16, [&](std::size_t i, std::size_t end, int) {
                for (; i < end; ++i) {
                    const std::uint32_t h = std::uint32_t(piece.begin + i) * 2654435761u;
                    piece.data.data()[i] = 0.035f * (float((h ^ (h >> 15)) >> 8) * 0x1p-23f - 1);
                }
            });
        for (const mpt::tensor_info& t : model.map.tensors) // the scales of layer norms
            if (t.deviation == 0) ops.fill(flat_master().subspan(t.begin, t.size), t.constant);
        ops.fill(m.span(), 0.0f);
        ops.fill(v.span(), 0.0f);
        mpt::cast(ops, owned.master, owned.weights);
    }

    void run() {
        const float S = 1024;
        mpt::gradients<T> g{grads.span(), sums.span()};
        for (int micro = 0; micro < micro_batches; ++micro) {
            at.micro = micro;
            loss = model.forward(strategy, weights.span(), at, acts);
            model.backward(strategy, weights.span(), at, acts,
                           S / float(micro_batches * at.B * at.T), g);
        }
        const auto mine = strategy.finish(g);
        const mpt::health health = mpt::inspect(ops, mine);
        mpt::check(health.finite, "step: gradients overflow, so the step would be skipped");
        adam.step(ops, model.map, owned, mine, mpt::clip_factor(mpt::norm(health) / S, 1.0) / S,
                  1e-5);
        strategy.publish(weights.span());
    }

    mpt::device_span<float> flat_master() {
        if constexpr (mpt::own_master<T>)
            return weights.span();
        else
            return master.span();
    }

    mpt::thread_pool pool;
    mpt::memory mem;
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    mpt::one_rank<T> strategy;
    std::size_t P; // parameters
    mpt::buffer<T> weights, grads;
    mpt::buffer<float> sums, master, m, v;
    mpt::buffer<int> tokens;
    mpt::gpt_acts<T> acts;
    int micro_batches;
    mpt::adamw_state<T> owned;
    mpt::adamw adam;
    mpt::batch at;
    double loss = 0;
};

} // namespace bench
