// SPDX-License-Identifier: MIT
// ranks_run.hpp -- one of N ranks that train a GPT: its buffers, whatever the strategy keeps of
// them, its step, and what a whole run leaves to compare.
#pragma once
#include "around.hpp"   // around, planted_infinity
#include "gpt_run.hpp"  // windows
#include "on_ranks.hpp" // on_ranks

#include "mpt/base/crc32c.hpp"         // crc32c: of all weights
#include "mpt/comm/communicator.hpp"   // communicator: sum, all
#include "mpt/dist/ddp.hpp"            // ddp: all_reduce by bucket
#include "mpt/dist/global_norm.hpp"    // norm: over all ranks
#include "mpt/dist/strategy_sizes.hpp" // sizes_of: what a rank allocates
#include "mpt/dist/zero1.hpp"          // zero1: reduce_scatter, step, all_gather
#include "mpt/dist/zero2.hpp"          // zero2: ... the other gradients are freed
#include "mpt/dist/zero3.hpp"          // zero3: ... and the other weights
#include "mpt/train/clip.hpp"          // clip_factor
#include "mpt/train/loss_scale.hpp"    // loss_scale: update

#include <functional>
#include <memory>

/// How a rank trains.
struct rank_plan {
    int stage = 0; // of ZeRO; 0: ddp
    mpt::reduce_mode mode = mpt::reduce_mode::once;
    int B = 2, M = 2;  // rows of a micro-batch, micro-batches of a window
    long steps = 6;   // attempted
    long overflow = 3; // in this step rank 1 overflows, in rank 2's part; -1: never
    std::size_t bucket = mpt::bucket_bytes; // of ddp
    std::size_t budget = 0;                 // bytes of a rank's device; 0: no limit
    int ahead = 1;                          // units that travel while others are computed
    bool recompute = false;                 // every block's activations
};
inline const char* stage_name(int stage) {
    constexpr const char* names[] = {"ddp", "zero1", "zero2", "zero3"};
    return names[stage];
}

template <class T>
struct ranks_run {
    ranks_run(mpt::communicator& c, const mpt::gpt_config& config, const rank_plan& p)
        : comm(c), plan(p), pool(1), mem(p.budget),
          ops(pool, mem, mpt::gpt_scratch<T>(config, p.B, config.context)), model(config, ops),
          cut(model.map, c.size()),
          sizes(mpt::sizes_of(p.stage, model.map, cut, c.rank(), p.M, p.mode)),
          weights_(mem, mpt::kind::weights, sizes.weights, "weights"),
          micro_(mem, mpt::kind::grads, sizes.micro, "gradients"),
          sums_(mem, mpt::kind::sums, sizes.sum, "fp32 sums of gradients"),
          master_(mem, mpt::kind::master, mpt::master_size<T>(sizes.owned), "fp32 master weights"),
          m_(mem, mpt::kind::moments, sizes.owned, "first moments"),
          v_(mem, mpt::kind::moments, sizes.owned, "second moments"),
          acts(mem, config, p.B, config.context,
               p.recompute ? mpt::checkpointing::every(1, config.layers) : mpt::checkpointing()),
          weights(weights_.span()), grads{micro_.span(), sums_.span()}, owned{{},
                                                                              m_.span(),
                                                                              v_.span(),
                                                                              {},
                                                                              {}} {
        use(make());
        owned.weights = strategy->mine(weights);
        owned.master = mpt::master_of(master_.span(), owned.weights);
        start();
    }

    /// Another strategy than the plan's, which keeps the same.
    void use(std::unique_ptr<mpt::strategy<T>> s) {
        inner = s.get();
        auto faulty = std::make_unique<planted_infinity<T>>(std::move(s));
        fault_ = faulty.get();
        fault_->unit = cut.units() - 1; // on rank 1, where the next one owns
        fault_->at = cut.begin(fault_->unit, 2 % comm.size()) - cut.begin(fault_->unit, 0);
        strategy = std::move(faulty);
    }
    /// Its unit's weights and gradients, through shape(the strategy so far).
    template <class Shape>
    void wrap(Shape shape) {
        fault_->inner = shape(std::move(fault_->inner));
    }

    /// Each rank makes the first weights of its own part; no rank needs room for all.
    void start() {
        for (std::size_t i = 0; i < owned.weights.size(); ++i) {
            const auto& p = owned.weights[i];
            std::vector<float> first(p.data.size());
            std::vector<T> low(p.data.size());
            mpt::initial_values(model.map, 1, p.begin, first);
            mpt::cast(first.data(), low.data(), low.size());
            ops.copy_to_device(p.data, low);
            if constexpr (!mpt::own_master<T>) ops.copy_to_device(owned.master[i].data, first);
        }
        ops.fill(owned.m, 0.0f);
        ops.fill(owned.v, 0.0f);
        strategy->publish(weights);
    }

    //! [step]
    /// Returns the mean loss of the window, over all ranks.
    double step(const window& now) {
        const double tokens = comm.sum(double(now.tokens));
        const float S = scale.value;
        fault_->due = comm.rank() == 1 && now.begin()->step == plan.overflow;
        double loss = 0;
        for (const mpt::batch& b : now) {
            loss += model.forward(*strategy, weights, b, acts) / tokens;
            model.backward(*strategy, weights, b, acts, float(seed(b) * S / tokens), grads);
        }
        const auto g = strategy->finish(grads); // summed over ranks; my part, scaled
        const mpt::health health = mpt::inspect(ops, g);
        const double norm = mpt::norm(*strategy, model.map, g, health) / S; // over all ranks
        if (scale.update(agree(health.finite), mpt::describe(health, model.map))) {
            const double factor = clip(norm, health) / S;
            adam.step(ops, model.map, owned, g, factor, 3e-3); // of my part
            publish();                                         // ... and all have it
        }
        return comm.sum(loss);
    }
    //! [step]

    /// What a chapter may break.
    std::function<double(const mpt::batch&)> seed = [](const mpt::batch&) { return 1; };
    std::function<bool(bool)> agree = [this](bool finite) { return comm.all(finite); };
    std::function<double(double, const mpt::health&)> clip = [](double norm, auto&) {
        return mpt::clip_factor(norm, 1);
    };
    std::function<void()> publish = [this] { strategy->publish(weights); };

    /// All weights, unit by unit, as the model would be given them.
    std::vector<T> all_weights() {
        std::vector<T> all(model.map.size());
        for (int u = 0; u < cut.units(); ++u) {
            const auto whole = strategy->acquire(weights, u);
            ops.copy_to_host(
                std::span(all).subspan(model.map.units[std::size_t(u)].begin, whole.size()), whole);
            strategy->release(u);
        }
        strategy->publish(weights); // what zero3 has gathered ahead is not wanted
        return all;
    }

    /// Where the strategy says what it does.
    mpt::narrator& narrate() {
        if (auto* s = dynamic_cast<mpt::ddp<T>*>(inner)) return s->narrate;
        return dynamic_cast<mpt::sharded<T>&>(*inner).narrate;
    }

    mpt::communicator& comm;
    const rank_plan plan;
    mpt::thread_pool pool;
    mpt::memory mem;
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    mpt::partition cut;
    mpt::strategy_sizes sizes;

private:
    std::unique_ptr<mpt::strategy<T>> make() {
        const rank_plan& p = plan;
        const mpt::layout& map = model.map;
        switch (p.stage) {
        case 1:
            return std::make_unique<mpt::zero1<T>>(ops, map, comm, p.M, p.mode);
        case 2:
            return std::make_unique<mpt::zero2<T>>(ops, map, comm, mem, p.M, p.mode, p.ahead);
        case 3:
            return std::make_unique<mpt::zero3<T>>(ops, map, comm, mem, p.M, p.mode, p.ahead);
        default:
            return std::make_unique<mpt::ddp<T>>(ops, map, comm, p.M, p.mode, p.bucket);
        }
    }
    mpt::buffer<T> weights_, micro_;
    mpt::buffer<float> sums_, master_, m_, v_;

public:
    mpt::gpt_acts<T> acts;
    mpt::device_span<T> weights; // what this rank keeps of them
    mpt::gradients<T> grads;
    mpt::adamw_state<T> owned; // what its optimizer updates
    mpt::adamw adam;
    mpt::loss_scale scale;
    mpt::strategy<T>* inner = nullptr;          // the plan's, or what was given to use()
    std::unique_ptr<mpt::strategy<T>> strategy; // ... with what is around it

private:
    planted_infinity<T>* fault_ = nullptr;
};

/// What a rank's run leaves.
struct trained {
    std::vector<double> losses;
    long skipped = 0;
    std::vector<std::uint32_t> digests;         // of all weights, step by step; in stage 3 the last
    std::array<std::size_t, mpt::kinds> held{}; // bytes, each kind's peak
    std::size_t peak = 0;                       // of all kinds together
    mpt::sent reduced, gathered;                // gradients, weights: of one step without overflow
    std::size_t P = 0, padded = 0;
    std::size_t at(mpt::kind k) const { return held[std::size_t(k)]; }
};

/// Trains on a rank. prepare(run): before the first step.
template <class T, class Prepare>
trained train_rank(mpt::communicator& comm, const mpt::gpt_config& c, const rank_plan& p,
                   Prepare prepare) {
    ranks_run<T> run(comm, c, p);
    windows data(run.ops, run.mem, "", p.M, p.B, c.context, comm.rank(), comm.size());
    prepare(run);
    trained t;
    for (long step = 0; step < p.steps; ++step) {
        comm.barrier(); // whoever reads from me has read: what is counted is one step's
        comm.sent.clear();
        t.losses.push_back(run.step(data(step)));
        comm.barrier();
        t.reduced = comm.sent.of(mpt::verb::all_reduce);
        t.reduced += comm.sent.of(mpt::verb::reduce_scatter);
        t.gathered = comm.sent.of(mpt::verb::all_gather);
        if (p.stage == 3 && step + 1 < p.steps) continue; // it would gather all for this only
        const std::vector<T> all = run.all_weights();
        t.digests.push_back(mpt::crc32c(std::as_bytes(std::span(all))));
    }
    t.skipped = p.steps - run.adam.applied;
    for (int k = 0; k < mpt::kinds; ++k) t.held[std::size_t(k)] = run.mem.books.peak(mpt::kind(k));
    t.peak = run.mem.books.peak_total();
    t.P = run.model.map.size(), t.padded = run.cut.padded_size();
    return t;
}
template <class T>
trained train_rank(mpt::communicator& comm, const mpt::gpt_config& c, const rank_plan& p) {
    return train_rank<T>(comm, c, p, [](ranks_run<T>&) {});
}
