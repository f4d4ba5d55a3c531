// SPDX-License-Identifier: MIT
// offload_run.hpp -- a rank that is alone and trains a GPT, with its optimizer's states and its
// gradients on the device or on the host: its buffers, its step, what it has moved and kept.
#pragma once
#include "around.hpp"  // planted_infinity
#include "gpt_run.hpp" // windows

#include "mpt/base/crc32c.hpp"       // crc32c: of weights and states
#include "mpt/dist/host_states.hpp"  // host_states: master, m, v in host memory
#include "mpt/dist/host_sums.hpp"    // leave: a window's gradients, to the host
#include "mpt/dist/leaving_rank.hpp" // leaving_rank: a unit's gradients, as soon as they are there
#include "mpt/dist/offload.hpp"      // offload: the step, part by part
#include "mpt/train/clip.hpp"        // clip_factor
#include "mpt/train/estimate.hpp"    // estimate: bytes by kind and place
#include "mpt/train/inspect.hpp"     // inspect, norm
#include "mpt/train/loss_scale.hpp"  // loss_scale: update

#include <cstdint>
#include <memory>
#include <optional>

/// When gradients leave the device.
enum class leaves {
    never,  // everything is on the device
    each,   // a micro-batch's, unit by unit, during backward; they are added up on the host
    window, // at the window's end: fp32 sums, or the gradients of a window of one
    rounded // ... as 16-bit numbers
};

struct offload_plan {
    leaves when = leaves::each;
    int B = 2, M = 4;             // rows of a micro-batch, micro-batches of a window
    long overflow = 3;            // in this step a gradient is infinite; -1: never
    std::size_t budget = 0;       // bytes of the device; 0: no limit
    std::size_t part = 98 * 256;  // elements that are updated at a time: half a block
    mpt::checkpointing keep = {}; // which blocks keep their activations; {}: all

    bool away() const { return when != leaves::never; }
    bool sums_here() const { return M > 1 && when != leaves::each; } // on the device
};

template <class T>
struct offload_run {
    /// calls: how bytes move between device and host.
    offload_run(const mpt::gpt_config& c, const offload_plan& p, mpt::transfer_calls calls = {})
        : config(c), plan(p), copies(std::move(calls)), pool(1), mem(p.budget),
          ops(pool, machine, mpt::gpt_scratch<T>(c, p.B, c.context)), model(c, ops),
          P(model.map.size()), acts(mem, c, p.B, c.context, p.keep),
          weights_(mem, mpt::kind::weights, P, "weights"),
          micro_(mem, mpt::kind::grads, p.when != leaves::each ? P : 0, "gradients"),
          sums_(mem, mpt::kind::sums, p.sums_here() ? P : 0, "fp32 sums of gradients"),
          master_(mem, mpt::kind::master, p.away() ? 0 : mpt::master_size<T>(P),
                  "fp32 master weights"),
          m_(mem, mpt::kind::moments, p.away() ? 0 : P, "first moments"),
          v_(mem, mpt::kind::moments, p.away() ? 0 : P, "second moments"),
          host_micro_(mem, mpt::kind::grads,
                      p.when == leaves::rounded || (p.away() && p.M == 1) ? P : 0,
                      "gradients on the host", mpt::place::host),
          host_sums_(mem, mpt::kind::sums,
                     p.M > 1 && (p.when == leaves::each || p.when == leaves::window) ? P : 0,
                     "sums on the host", mpt::place::host),
          weights(weights_.span()), grads{micro_.span(), sums_.span()} {
        std::unique_ptr<mpt::strategy<T>> s;
        if (p.when == leaves::each) {
            s = std::make_unique<mpt::leaving_rank<T>>(ops, model.map, mem, copies);
            grads = {host_micro_.span(), host_sums_.span()};
        } else {
            s = std::make_unique<mpt::one_rank<T>>(ops, model.map);
        }
        auto faulty = std::make_unique<planted_infinity<T>>(std::move(s));
        fault_ = faulty.get();
        fault_->unit = int(model.map.units.size()) - 1;
        strategy = std::move(faulty);
        const mpt::pieces<T> mine = strategy->mine(weights);
        if (p.away()) {
            store = std::make_unique<mpt::host_states<T>>(mem, mine, 2, p.part);
            away.emplace(mem, mine, *store, copies);
        } else {
            owned = {mpt::master_of(master_.span(), mine), m_.span(), v_.span(), mine, {}};
        }
        start();
    }

    /// Its units' gradients, through shape(the strategy so far).
    template <class Shape>
    void wrap(Shape shape) {
        fault_->inner = shape(std::move(fault_->inner));
    }

    //! [step]
    /// Returns the mean loss of the window.
    template <class Rule>
    double step(const window& now, Rule& rule) {
        const float S = scale.value;
        fault_->due = now.begin()->step == plan.overflow;
        double loss = 0;
        for (const mpt::batch& b : now) { // in backward gradients leave, unit by unit
            loss += model.forward(*strategy, weights, b, acts) / double(now.tokens);
            model.backward(*strategy, weights, b, acts, scale.seed(now.tokens), grads);
        }
        const auto g = out(strategy->finish(grads));     // on the host, where the update will be
        const mpt::health health = mpt::inspect(ops, g); // ... and read by its CPU
        if (scale.update(health.finite, mpt::describe(health, model.map))) {
            const double factor = mpt::clip_factor(mpt::norm(health) / S, 1) / S;
            g.visit([&](const auto& mine) {
                if (away) // part k's weights go back while k + 1 is updated
                    away->step(rule, ops, model.map, mine, factor, 3e-3);
                else
                    rule.step(ops, model.map, owned, mine, factor, 3e-3);
            });
        }
        return loss;
    }
    //! [step]
    double step(const window& now) { return step(now, adam); }

    /// A checksum of weights, master, m and v.
    std::uint32_t digest() {
        std::vector<T> low(P);
        ops.copy_to_host(std::span(low), weights);
        std::vector<float> states(3 * P);
        const std::span<float> all(states), master = all.first(P), m = all.subspan(P, P),
                                            v = all.last(P);
        if (away) {
            away->copy_to({master, m, v});
        } else {
            ops.copy_to_host(m, owned.m);
            ops.copy_to_host(v, owned.v);
            for (const auto& p : owned.master)
                ops.copy_to_host(master.subspan(p.begin, p.data.size()), p.data);
        }
        return mpt::crc32c(std::as_bytes(std::span(low))) ^ mpt::crc32c(std::as_bytes(all));
    }

    //! [formula]
    /// Bytes by kind, here and there.
    mpt::estimate formula() const {
        constexpr auto there = mpt::place::host;
        const mpt::gpt_config& c = config;
        mpt::model_size size = mpt::size_of_gpt(c, acts.plan, plan.B, c.context, sizeof(T));
        size.data *= std::size_t(plan.M); // `windows` has all of a window
        mpt::training_plan p;             // chapter 11: everything on the device
        p.weight = sizeof(T), p.master = sizeof(T) < 4, p.micro_batches = plan.M;
        mpt::estimate e = mpt::estimate_bytes(size, p);
        if (!plan.away()) return e;

        e.at(mpt::kind::master) = e.at(mpt::kind::moments) = 0; // to the host, 12 a parameter
        e.at(mpt::kind::master, there) = 4 * P;
        e.at(mpt::kind::moments, there) = 8 * P;
        e.at(mpt::kind::weights, there) =
            2 * store->largest() * sizeof(T); // two parts, on their way
        e.at(mpt::kind::grads, there) = host_micro_.bytes();
        e.at(mpt::kind::sums, there) = host_sums_.bytes();
        if (plan.when == leaves::each) { // room for three units: U + 2 B
            e.at(mpt::kind::grads) = e.at(mpt::kind::sums) = 0;
            e.at(mpt::kind::comm) = size.going.grads * sizeof(T);
            e.at(mpt::kind::temp, there) = (1 << 16) * sizeof(T); // a chunk that is added up
        }
        return e;
    }
    //! [formula]

    const mpt::gpt_config config;
    const offload_plan plan;
    mpt::transfers copies;
    mpt::thread_pool pool;
    mpt::memory machine; // scratch of the CPU that plays the device, and is the host as well
    mpt::memory mem;     // the device's, with the budget, and the host's
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    std::size_t P; // parameters
    mpt::gpt_acts<T> acts;

private:
    // The gradients of a window, where the update is.
    mpt::owned_gradients<T> out(mpt::owned_gradients<T> g) {
        if (plan.when == leaves::never || plan.when == leaves::each) return g; // are there
        if (plan.when == leaves::rounded && !g.sum.empty()) {
            for (const auto& p : g.sum) {
                const auto low = micro_.span().subspan(p.begin, p.data.size());
                ops.template cast<T>(low, p.data);
                g.micro.push_back({low, p.begin});
            }
            g.sum.clear();
        }
        return mpt::leave(copies, g, host_micro_.span(), host_sums_.span());
    }

    void start() {
        const auto first = [&](std::size_t begin, std::span<float> to) {
            mpt::initial_values(model.map, 1, begin, to);
        };
        std::vector<float> all(P);
        std::vector<T> low(P);
        first(0, all);
        mpt::cast(all.data(), low.data(), P);
        ops.copy_to_device(weights, low);
        if (away) return away->begin(first);
        ops.fill(owned.m, 0.0f);
        ops.fill(owned.v, 0.0f);
        if constexpr (!mpt::own_master<T>) ops.copy_to_device(master_.span(), all);
    }

    mpt::buffer<T> weights_, micro_;
    mpt::buffer<float> sums_, master_, m_, v_;
    mpt::buffer<T> host_micro_;
    mpt::buffer<float> host_sums_;
    planted_infinity<T>* fault_ = nullptr;

public:
    mpt::device_span<T> weights;
    mpt::gradients<T> grads;
    mpt::adamw_state<T> owned; // what the optimizer updates, where nothing is away
    mpt::adamw adam;
    mpt::loss_scale scale;
    std::unique_ptr<mpt::strategy<T>> strategy;
    std::unique_ptr<mpt::state_store<T>> store;
    std::optional<mpt::offload<T>> away;
};
