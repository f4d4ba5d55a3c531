// SPDX-License-Identifier: MIT
// lean_run.hpp -- a GPT's training run whose optimizer may keep its moments in any form, and whose
// 16-bit weights may do without a master. Every byte is in its ledger.
#pragma once
#include "gpt_run.hpp"      // windows
#include "kept_moments.hpp" // kept_moments

#include "mpt/train/adamw.hpp"    // adamw
#include "mpt/train/clip.hpp"     // clip_factor
#include "mpt/train/estimate.hpp" // estimate_bytes
#include "mpt/train/inspect.hpp"  // inspect, norm
#include "mpt/train/sgd.hpp"      // sgd

#include <string>

/// One way to spend memory.
struct spending {
    std::string name;
    mpt::optimizer_kind optimizer = mpt::optimizer_kind::adamw;
    bool master = true;     // of 16-bit weights; without: rounded stochastically
    int B = 16, M = 1;      // rows a micro-batch, micro-batches a step
    bool recompute = false; // every block's activations
};

template <class T>
struct lean_run {
    lean_run(const mpt::gpt_config& c, const spending& s, int threads)
        : how(s), config(c), plan(s.recompute ? mpt::checkpointing::every(1, c.layers)
                                              : mpt::checkpointing::none(c.layers)),
          pool(threads), scratch(mpt::gpt_scratch<T>(c, s.B, c.context)), ops(pool, mem, scratch),
          model(c, ops), strategy(ops, model.map), P(model.map.size()),
          acts(mem, c, s.B, c.context, plan), weights(mem, mpt::kind::weights, P, "weights"),
          grads_(mem, mpt::kind::grads, P, "gradients"),
          sums_(mem, mpt::kind::sums, s.M > 1 ? P : 0, "fp32 sums of gradients"),
          master_(mem, mpt::kind::master, s.master ? mpt::master_size<T>(P) : 0, "fp32 master"),
          moments(mem, model.map, s.optimizer, 1), grads{grads_.span(), sums_.span()},
          data(ops, mem, "", s.M, s.B, c.context) {
        own.weights = strategy.mine(weights.span());
        if (s.master || mpt::own_master<T>)
            own.master = mpt::master_of(master_.span(), own.weights);
        else
            own.rounding_seed = 1;
        std::vector<float> first(P);
        mpt::initial_values(model.map, 1, 0, first);
        if (master_.size() > 0) ops.copy_to_device(master_.span(), first);
        std::vector<T> low(P);
        mpt::cast(first.data(), low.data(), P);
        ops.copy_to_device(weights.span(), std::span<const T>(low));
        moments.begin(ops);
    }

    double loss(const window& w) {
        double sum = 0;
        for (const mpt::batch& b : w) sum += model.forward(strategy, weights.span(), b, acts);
        return sum / double(w.tokens);
    }

    //! [step]
    template <class Rule>
    void step(Rule& rule, const window& w, double lr) {
        for (const mpt::batch& b : w) {
            model.forward(strategy, weights.span(), b, acts);
            model.backward(strategy, weights.span(), b, acts, 1.0f / float(w.tokens), grads);
        }
        const auto g = strategy.finish(grads);
        const double norm = mpt::norm(mpt::inspect(ops, g));
        moments.step(rule, ops, model.map, own, g, mpt::clip_factor(norm, 1), lr);
    }
    //! [step]

    /// By formula. The windows hold the tokens of all micro-batches.
    mpt::estimate formula() const {
        mpt::model_size size = mpt::size_of_gpt(config, plan, how.B, config.context, sizeof(T));
        size.temp += scratch * std::size_t(pool.size());
        size.data *= std::size_t(how.M);
        mpt::training_plan p;
        p.weight = sizeof(T), p.master = master_.size() > 0;
        p.optimizer = how.optimizer, p.micro_batches = how.M;
        return mpt::estimate_bytes(size, p);
    }

    spending how;
    mpt::gpt_config config;
    mpt::checkpointing plan;
    mpt::thread_pool pool;
    mpt::memory mem;
    std::size_t scratch;
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    mpt::one_rank<T> strategy;
    std::size_t P;
    mpt::gpt_acts<T> acts;
    mpt::buffer<T> weights;

private:
    mpt::buffer<T> grads_;
    mpt::buffer<float> sums_, master_;

public:
    kept_moments moments;
    mpt::gradients<T> grads;
    mpt::optimizer_state<T> own;
    windows data;
};

/// f(a fresh optimizer of this kind, its learning rate).
template <class F>
auto with_rule(mpt::optimizer_kind kind, F f) {
    switch (kind) {
    case mpt::optimizer_kind::adam8:
        return f(mpt::adam8bit(), 3e-3);
    case mpt::optimizer_kind::adam16:
        return f(mpt::adamw_bf16(), 3e-3);
    case mpt::optimizer_kind::momentum:
        return f(mpt::sgd(), 0.1);
    case mpt::optimizer_kind::sgd:
        return f(mpt::sgd{.momentum = 0}, 1.0);
    default:
        return f(mpt::adamw(), 3e-3);
    }
}
