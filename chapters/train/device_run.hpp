// SPDX-License-Identifier: MIT
// device_run.hpp -- the whole run on kernels: emulated where g++ compiles it, on a GPU where nvcc
// does. The host puts a step into the stream and hears of it while the next one computes: no step
// waits for the host, nor for another rank's. Compiled once a precision, with the operations of the
// machine.
#pragma once
#include "rank_strategy.hpp"
#include "training.hpp"

#include "../common/progress.hpp"

#include "mpt/kernels/device.cuh"    // recorded_work
#include "mpt/nn/device.hpp"         // device_queue, device_memory, pinned_memory
#include "mpt/nn/kernel_scratch.hpp" // gpt_kernel_scratch
#include "mpt/train/device_step.hpp" // device_step: begin, inspect, decide, adamw, end
#include "mpt/train/inspect.hpp"     // health, describe
#include "mpt/train/loss_scale.hpp"  // check_loss
#include "mpt/train/token_feed.hpp"  // token_feed

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

/// Ops: kernel_ops, or a list derived from it.
template <class Ops>
struct device_machine {
    using operations = Ops;

    explicit device_machine(const options& o)
        : mem(o.device_memory, mpt::device_memory(), mpt::pinned_memory()) {}

    template <class T>
    operations make(const options& o, const mpt::gpt_config& c) {
        return {queue, mem, scratch(o, c), o.precision == "tf32"};
    }
    /// From here on the ranks' messages and this device's kernels wait for each other.
    template <class T>
    std::unique_ptr<mpt::strategy<T>> strategy(const options& o, mpt::communicator& comm,
                                               const operations& ops, const mpt::layout& map) {
        queue.patience = comm.follow(queue.work);
        return rank_strategy<T, mpt::kernel_ops>(
            o, comm, ops, map, mem, [this](const std::string& line) { narrate(line); });
    }
    void narrate(const std::string& line) const {
        if (narrating) std::fprintf(stderr, "%s\n", line.c_str());
    }
    /// The kernels' scratch: no kernel runs while ranks send what they keep.
    template <class E>
    static mpt::device_span<E> landing(const options& o, const mpt::gpt_config& c,
                                       const operations& ops) {
        const std::size_t bytes = scratch(o, c);
        return {static_cast<E*>(ops.scratch(bytes)), bytes / sizeof(E)};
    }
    static std::size_t scratch(const options& o, const mpt::gpt_config& c) {
        return std::max(mpt::gpt_kernel_scratch(c, o.batch, o.context),
                        operations::product_bytes());
    }
    static machine_bytes extra(const options& o, const mpt::gpt_config& c) {
        const std::size_t window =
            std::size_t(o.micro_batches) * std::size_t(o.batch) * std::size_t(o.context);
        return {"kernels on " + mpt::device_name() + ", products by " + operations::products(),
                operations::bytes(scratch(o, c)) +
                    mpt::device_step::bytes(o.micro_batches, o.optimizer == "adam8bit", o.ranks),
                mpt::token_feed::bytes(window), mpt::device_step::host_bytes()};
    }

    mpt::device_queue queue;
    mpt::memory mem;
    bool narrating = false; // says what the strategy does
};

/// The learning rate, as learning_rate() of optimizer.hpp computes it.
inline mpt::rate_rule device_rate(const options& o) {
    using r = mpt::rate_rule;
    const long twentieth = o.warmup < 0 ? o.steps / 20 : o.warmup;
    if (o.schedule == "constant") return {r::constant, o.lr, 0, 0, 0};
    if (o.schedule == "cosine")
        return {r::cosine, o.lr, o.min_lr < 0 ? o.lr / 10 : o.min_lr, twentieth, o.steps};
    return {o.schedule == "warmup-linear" ? r::linear : r::logarithmic, o.lr,
            std::max(0.0, double(o.min_lr)), std::max(2L, twentieth), 0};
}

inline mpt::step_rules device_rules(const options& o) {
    mpt::step_rules how;
    how.rate = device_rate(o);
    how.beta1 = o.beta1, how.beta2 = o.beta2, how.weight_decay = o.weight_decay;
    how.max_norm = o.clip;
    how.tokens = double(o.ranks) * o.micro_batches * o.batch * o.context;
    return how;
}

/// A run's steps: each put into the stream at once, heard of later.
template <class T, class Ops>
class device_steps {
public:
    device_steps(training<T, device_machine<Ops>>& of, const state& now)
        : run_(of), queue_(of.machine.queue), tokens_(of.rows() * std::size_t(of.o.context)),
          feed_(queue_, of.mem, std::size_t(of.o.micro_batches) * tokens_),
          step_(of.ops, of.mem, device_rules(of.o), of.o.micro_batches, now.scale.grad(),
                now.attempted, now.rule.applied(), of.o.optimizer == "adam8bit", of.comm.size()),
          owned_(of.owned()) {}

    /// Step `step` is on its way when this returns. stop: this rank's host wants no more.
    void put(long step, bool stop) {
        const std::span<int> inputs = feed_.inputs(step), targets = feed_.targets(step);
        for (int micro = 0; micro < run_.o.micro_batches; ++micro) {
            const std::size_t at = std::size_t(micro) * tokens_;
            mpt::draw_batch(run_.data, run_.o.seed, step, sample(micro), run_.o.batch,
                            run_.o.context, inputs.subspan(at, tokens_),
                            targets.subspan(at, tokens_));
        }
        feed_.send(step);
        if (shared(run_.o)) // units come and go in the step, and `stop` is an argument
            work(step, stop);
        else
            recorded_[mpt::token_feed::slot(step)].run(queue_.work, [&] { work(step, false); });
        feed_.over(step);
        step_.tell(step);
    }
    /// What became of it.
    mpt::step_row row(long step) { return step_.told(step); }
    bool recorded() const { return recorded_[0].recorded() && recorded_[1].recorded(); }

private:
    // The first of a micro-batch in the step's batch of all ranks.
    long sample(int micro) const {
        return (long(micro) * run_.comm.size() + run_.comm.rank()) * run_.o.batch;
    }
    // The gradients that this rank looks at: in ddp, where all are here, those of its shards, so
    // that all strategies add the same squares in the same order.
    mpt::owned_gradients<T> looked_at(mpt::owned_gradients<T> g) const {
        if (run_.o.zero > 0 || run_.comm.size() == 1) return g;
        const auto keep = [&](auto& parts) {
            std::erase_if(parts, [&](const auto& p) {
                const int unit = run_.model.map.tensor_of(p.begin).unit;
                return p.begin != run_.cut.begin(unit, run_.comm.rank());
            });
        };
        keep(g.micro), keep(g.sum);
        return g;
    }

    // The step of docs/design.md. It may be recorded: of `step` only the slot of its tokens counts.
    void work(long step, bool stop) {
        step_.begin();
        for (int micro = 0; micro < run_.o.micro_batches; ++micro) {
            const std::size_t at = std::size_t(micro) * tokens_;
            const mpt::batch b{feed_.device_inputs(step).subspan(at, tokens_),
                               feed_.device_targets(step).subspan(at, tokens_),
                               run_.o.batch,
                               run_.o.context,
                               micro,
                               0, // the device adds the step's number
                               sample(micro)};
            run_.ops.places = step_.places(micro);
            narrate(" forward, micro-batch ", micro);
            run_.model.forward(run_.strategy, run_.weights.span(), b, *run_.acts);
            narrate(" backward, micro-batch ", micro);
            run_.model.backward(run_.strategy, run_.weights.span(), b, *run_.acts, 0, run_.grads);
        }
        run_.ops.places = {};
        const auto g = run_.strategy.finish(run_.grads);
        step_.inspect(looked_at(g));
        if (run_.comm.size() > 1) step_.share(run_.comm, stop);
        step_.decide();
        run_.moments.on_device(step_, run_.model.map, owned_, g);
        narrate(" updates ", mpt::size_of(owned_.weights), " parameters");
        run_.strategy.publish(run_.weights.span());
        step_.end();
    }

    template <class... Words>
    void narrate(const Words&... words) const {
        if (run_.machine.narrating)
            run_.machine.narrate(mpt::join("rank ", run_.comm.rank(), words...));
    }

    training<T, device_machine<Ops>>& run_;
    const mpt::device_queue& queue_;
    std::size_t tokens_; // of a micro-batch
    mpt::token_feed feed_;
    mpt::device_step step_;
    mpt::optimizer_state<T> owned_;
    mpt::kernels::recorded_work recorded_[2]; // one a slot of tokens
};

/// What the device did, for who asks whether all of it was kernels.
inline std::string told_operations(const std::map<std::string_view, long>& ran) {
    std::string text;
    for (const auto& [name, calls] : ran)
        text += (text.empty() ? "" : ", ") + std::string(name) + ' ' + std::to_string(calls);
    return text;
}

/// The first element that is not finite of all ranks' gradients; in the step of `row`, which has
/// some. Every rank calls it.
inline std::size_t first_bad_of_all(mpt::communicator& comm, const mpt::step_row& row) {
    const double mine[] = {double(row.bad_elsewhere), double(row.first_bad)};
    const std::vector<double> all = comm.gather(mine);
    double first = double(SIZE_MAX);
    for (std::size_t r = 0; r < all.size(); r += 2)
        if (all[r] == 0) first = std::min(first, all[r + 1]);
    return std::size_t(first);
}

template <class T, class Ops>
int train_on_device(const options& given, mpt::communicator& comm) {
    options o = given;
    const mpt::token_data data = mpt::load_tokens(o.data.empty() ? MPT_CORPUS : o.data);
    mpt::require_context(data, o.context);
    state now{optimizer(o), scaler(o)};
    training<T, device_machine<Ops>> run(o, data, now.rule.kind(), comm);
    start(run, now, o);
    check_ranks(run);
    long saved = o.resume ? now.attempted : -1; // the newest checkpoint's step

    const long last = last_step(o, now.attempted);
    progress bar(o.steps, now.attempted);
    const machine_bytes machine = device_machine<Ops>::extra(o, run.config);
    std::optional<report> told; // rank 0 speaks for all
    if (comm.rank() == 0) {
        told.emplace(o, data, run.config, run.P, run.planned(now.rule.kind(), machine),
                     machine.name, now.attempted,
                     mpt::remark(o.zero, run.sizes, o.micro_batches, run.when(o)));
        told->start();
        if (o.resume)
            std::fprintf(stderr, "resumed     %s, after step %ld\n", o.from.c_str(), now.attempted);
    }
    save_on_interrupt();

    const mpt::device_queue& queue = run.machine.queue;
    std::optional<device_steps<T, Ops>> steps(std::in_place, run, now);
    const double tokens = double(o.ranks) * o.micro_batches * o.batch * o.context;
    bool stop = false;          // by Ctrl-C, at the same step on all ranks
    long heard = now.attempted; // steps whose rows have come
    elements_sent sent;
    steps_taken taken;
    bool validated = false; // just before this step
    // Tokens a second are those since the last stop: rows are heard of when the host looks, two
    // within a moment and then none for long.
    long first = heard;
    double began = bar.seconds();

    const auto hear = [&] { // of the oldest step on its way
        const mpt::step_row row = steps->row(heard++);
        mpt::check_loss(row.loss, heard);
        mpt::check(row.bad_blocks == 0, "adam8bit: step ", heard, ": new moments of ",
                   row.bad_blocks, " blocks are not finite; a gradient of 2e19 or more has a "
                   "square that is infinite: lower the learning rate");
        mpt::health health;
        health.finite = row.bad == 0, health.count = run.P;
        health.bad = std::size_t(row.bad), health.first_bad = std::size_t(row.first_bad);
        if (!health.finite && comm.size() > 1) health.first_bad = first_bad_of_all(comm, row);
        // The device has moved its scale already; the host's follows by the same rule, for the
        // log, the checkpoint and what ends a run.
        mpt::check(row.scale == now.scale.now().value, "step ", heard, ": the device's scale ",
                   row.scale, " is not the host's ", now.scale.now().value);
        const bool applied =
            now.scale.update(health.finite, mpt::describe(health, run.model.map));
        if (applied) ++now.rule.applied(), ++taken.applied;
        stop = stop || row.stop > 0;
        if (!told) return;
        const std::string why = now.scale.now().last.line(heard);
        if (!why.empty()) bar.say(why);
        const double rate = tokens * double(heard - first) / (bar.seconds() - began);
        told->step({heard, row.loss, row.rate, health.finite ? row.norm : NAN, row.scale, !applied,
                    rate},
                   bar);
    };
    const auto hear_all = [&] {
        const elements_sent before = elements_sent::of(comm.sent);
        while (heard < now.attempted) hear();
        sent.add(before, elements_sent::of(comm.sent));
    };

    while (now.attempted < last && !stop && (comm.size() > 1 || !interrupted)) {
        const mpt::host_account asked = queue.account;
        const elements_sent before = elements_sent::of(comm.sent);
        run.machine.narrating = o.narrate && taken.steps == 0;
        steps->put(now.attempted++, interrupted != 0);
        run.machine.narrating = false;
        ++taken.steps, taken.kept += std::exchange(validated, false);
        if (now.attempted - heard == 2) hear();
        sent.add(before, elements_sent::of(comm.sent));
        // In steady state tokens go in, a row comes out, and nobody waits for the device.
        mpt::check(queue.account.copies_in == asked.copies_in + 1 &&
                       queue.account.copies_out == asked.copies_out + 1 &&
                       queue.account.waits == asked.waits,
                   "step ", now.attempted, ": ", queue.account.copies_in - asked.copies_in,
                   " copies in, ", queue.account.copies_out - asked.copies_out, " out, ",
                   queue.account.waits - asked.waits, " waits for the device; wanted 1, 1, 0");
        const bool validates =
            due(now.attempted, o.validate_every, o) || now.attempted == o.steps;
        const bool saves = due(now.attempted, o.save_every, o);
        if (!validates && !saves) continue;
        hear_all();
        if (validates) {
            const double held_out = run.validation_loss();
            if (told) told->validation(now.attempted, held_out, bar);
            validated = true;
        }
        if (saves) {
            save(run, now, o.out);
            saved = now.attempted;
        }
        first = heard, began = bar.seconds();
    }
    hear_all();
    stop = stop || (comm.size() == 1 && interrupted);
    if (now.attempted != saved) save(run, now, o.out);
    if (told) {
        bar.finish();
        std::fprintf(stderr, "kernels     %s%s\n", told_operations(run.ops.ran).c_str(),
                     steps->recorded() ? "; steps recorded as a graph" : "");
    }
    if (shared(o)) {
        const memory_plan held =
            run.planned(now.rule.kind(), machine, taken.ahead(o.micro_batches));
        const auto all = all_accounts(comm, run.account(held, sent, taken));
        if (told) told->finish(all, taken.steps, now.attempted, now.scale.now().skipped);
    } else {
        told->finish(run.mem.books, now.attempted, now.scale.now().skipped);
    }
    if (now.attempted < o.steps) {
        if (told) told->stopped(now.attempted, stop);
        return stop ? 130 : 0;
    }
    std::signal(SIGINT, SIG_DFL); // everything is saved
    steps.reset();
    run.acts.reset(); // room for the sample's own
    if (told) told->sample_begins();
    if (told || o.zero == 3) // whose ranks gather the weights together
        write_sample(run.model, run.mem, run.strategy,
                     mpt::device_span<const T>(run.weights.span()), o, data.vocabulary,
                     bool(told));
    return 0;
}
