// SPDX-License-Identifier: MIT
// optimizer_runs.hpp -- the chapter on optimizers: a small GPT, trained from the same first weights
// again and again, by any optimizer, in batches of any size.
#pragma once
#include "gpt_run.hpp"  // gpt_run, windows: model, buffers, text
#include "progress.hpp" // progress: on stderr

#include "mpt/train/inspect.hpp"  // inspect
#include "mpt/train/schedule.hpp" // schedule

#include <cmath>
#include <map>
#include <memory>
#include <string>

struct run_options {
    long rows = 4096; // of text, that each run learns
    bool one_ratio = false, no_warm_up = false;
    int threads = 0;
    std::string data;
};

constexpr int B = 4, T = 32; // a micro-batch: rows of tokens

inline mpt::gpt_config config() {
    mpt::gpt_config c;
    c.layers = 2, c.channels = 32, c.context = T;
    return c;
}

//! [step]
/// Train from the first weights on; the held-out loss, or NaN where the weights left the numbers.
/// Nothing is clipped: that would hide which rates are too large.
template <class W, class Optimizer, class After>
double learn(gpt_run<W>& run, windows& data, const mpt::layout& map, Optimizer optimizer,
             const mpt::schedule& rate, After after) {
    run.start();
    mpt::optimizer_state<W> own = run.owned;
    if (optimizer.moments() < 2) own.v = {};
    if (optimizer.moments() < 1) own.m = {};
    for (long step = 0; step < rate.decay; ++step) {
        const window now = data(step); // k micro-batches
        for (const mpt::batch& b : now) {
            run.model.forward(run.strategy, run.weights, b, run.acts);
            run.model.backward(run.strategy, run.weights, b, run.acts, 1.0f / float(now.tokens),
                               run.grads);
        }
        const auto g = run.strategy.finish(run.grads);
        if (!mpt::inspect(run.ops, g).finite) return NAN;
        optimizer.step(run.ops, map, own, g, 1, rate(optimizer.applied));
        after(own);
        run.strategy.publish(run.weights);
    }
    return run.loss(data.held_out());
}
//! [step]

/// Runs in fp32, of one text, k micro-batches a step: the larger k, the fewer steps.
class trainer {
public:
    trainer(const run_options& o, progress& bar) : o_(o), bar_(bar) {
        whole_.add_unit("all");
        whole_.add("all", {mpt::gpt<float, mpt::loops>(config(), place(1).run.ops).map.size()}, 0);
    }

    template <class Optimizer>
    double operator()(const Optimizer& optimizer, int k, double lr, bool warm_up = true) {
        place_of& at = place(k);
        const long steps = o_.rows / (B * k);
        const mpt::layout& map = o_.one_ratio ? whole_ : at.run.model.map;
        const double loss =
            learn(at.run, at.data, map, optimizer,
                  mpt::schedule{lr, lr / 10, warm_up && !o_.no_warm_up ? steps / 10 : 0, steps},
                  [](auto&) {});
        bar_.show(++done_, mpt::join("k ", k, ", rate ", lr, ": ", loss));
        return loss;
    }

private:
    struct place_of {
        place_of(const run_options& o, int k)
            : run(config(), B, k, o.threads), data(run.ops, run.mem, o.data, k, B, T) {}
        gpt_run<float> run;
        windows data;
    };
    place_of& place(int k) {
        auto& at = places_[k];
        if (!at) at = std::make_unique<place_of>(o_, k);
        return *at;
    }
    const run_options& o_;
    progress& bar_;
    long done_ = 0;
    mpt::layout whole_; // the buffer as a single tensor
    std::map<int, std::unique_ptr<place_of>> places_;
};
