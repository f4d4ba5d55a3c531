// SPDX-License-Identifier: MIT
// cpu_run.hpp -- the whole run on the CPU's plain loops: the step of docs/design.md with what a
// real run needs around it. Compiled once a precision (fp32.cpp, fp16.cpp, bf16.cpp).
#pragma once
#include "cpu_machine.hpp"
#include "training.hpp"

#include "../common/progress.hpp"

#include "mpt/base/trace.hpp"       // trace, range
#include "mpt/dist/global_norm.hpp" // norm
#include "mpt/dist/one_rank.hpp"    // one_rank
#include "mpt/train/clip.hpp"       // clip_factor
#include "mpt/train/inspect.hpp"    // inspect
#include "mpt/train/loss_scale.hpp" // check_loss

#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

/// What every rank has found in its shard, for one line of all: how much of it is not finite.
inline mpt::health of_all_ranks(mpt::communicator& comm, const mpt::health& mine) {
    const double numbers[] = {double(mine.count), double(mine.bad), double(mine.first_bad)};
    const std::vector<double> all = comm.gather(numbers);
    mpt::health sum;
    for (std::size_t r = 0; r < all.size(); r += 3) { // first_bad: the first of all parameters
        const std::size_t bad = std::size_t(all[r + 1]), first = std::size_t(all[r + 2]);
        if (bad > 0 && (sum.bad == 0 || first < sum.first_bad)) sum.first_bad = first;
        sum.count += std::size_t(all[r]), sum.bad += bad;
    }
    sum.finite = sum.bad == 0;
    return sum;
}

template <class T>
int train(const options& given, mpt::communicator& comm) {
    options o = given;
    const mpt::token_data data = mpt::load_tokens(o.data.empty() ? MPT_CORPUS : o.data);
    mpt::require_context(data, o.context);
    state now{optimizer(o), scaler(o)};
    const auto trace = open_trace(o, comm); // outlives what is on its way
    training<T, cpu_machine> run(o, data, now.rule.kind(), comm);

    const auto rate = learning_rate(o);
    start(run, now, o);
    check_ranks(run);
    const auto owned = run.owned();
    long saved = o.resume ? now.attempted : -1; // the newest checkpoint's step

    const long last = last_step(o, now.attempted);
    progress bar(o.steps, now.attempted);
    const machine_bytes machine = cpu_machine::extra<T>(o, run.config);
    const memory_plan plan = run.planned(now.rule.kind(), machine);
    std::optional<report> told; // rank 0 speaks for all
    if (comm.rank() == 0) {
        told.emplace(o, data, run.config, run.P, plan, machine.name, now.attempted,
                     mpt::remark(o.zero, run.sizes, o.micro_batches, run.when(o)));
        told->start();
        if (o.resume)
            std::fprintf(stderr, "resumed     %s, after step %ld\n", o.from.c_str(), now.attempted);
    }
    save_on_interrupt();

    // Targets of a window, those of all ranks: here every token is one, so it is counted once.
    const long tokens = long(comm.sum(double(o.micro_batches) * o.batch * o.context));
    bool stop = false; // by Ctrl-C, which some ranks see a step earlier than others
    elements_sent sent;
    moved crossed;
    steps_taken taken;
    bool validated = false; // just before this step

    while (now.attempted < last && !(stop = comm.max(interrupted) > 0)) {
        const mpt::range whole(trace.get(), mpt::lane::compute, "step");
        const double began = bar.seconds();
        const elements_sent before = elements_sent::of(comm.sent);
        const moved until_now = run.crossed();
        const long step = now.attempted;
        const float S = now.scale.now().value;
        const double lr = rate(now.rule.applied());

        run.machine.narrating = o.narrate && taken.steps == 0;
        double loss = 0; // mean over the window's tokens
        for (int micro = 0; micro < o.micro_batches; ++micro) {
            const mpt::batch b = run.draw(step, micro);
            {
                run.machine.narrate(
                    mpt::join("rank ", comm.rank(), " forward, micro-batch ", micro));
                const mpt::range r(trace.get(), mpt::lane::compute, "forward");
                loss += run.model.forward(run.strategy, run.weights.span(), b, *run.acts);
            }
            const mpt::range r(trace.get(), mpt::lane::compute, "backward");
            run.machine.narrate(mpt::join("rank ", comm.rank(), " backward, micro-batch ", micro));
            run.model.backward(run.strategy, run.weights.span(), b, *run.acts,
                               now.scale.now().seed(tokens), run.grads);
        }
        loss = comm.sum(loss) / double(tokens);
        mpt::check_loss(loss, step + 1);

        auto g = run.strategy.finish(run.grads);      // mine, still scaled
        if (run.leaving) g = run.leaving->arrived(g); // ... and where its optimizer is
        mpt::health health;
        {
            const mpt::range r(trace.get(), mpt::lane::compute, "inspect");
            health = mpt::inspect(run.ops, g);
        }
        const double norm =
            mpt::norm(run.strategy, run.model.map, g, health) / S; // unscaled, before clipping
        const bool finite = comm.all(health.finite); // every rank takes the same branch
        if (!finite && o.zero > 0) health = of_all_ranks(comm, health);
        const bool applied = now.scale.update(finite, mpt::describe(health, run.model.map));
        if (applied) {
            const mpt::range r(trace.get(), mpt::lane::compute, "optimizer");
            const double factor = mpt::clip_factor(norm, o.clip) / S; // unscale and clip, in fp32
            if (run.away)
                now.rule.step(run.ops, run.model.map, run.away->steps, g, factor, lr);
            else
                now.rule.step(run.ops, run.model.map, owned, run.moments, g, factor, lr,
                              [&](std::span<double> sums) { run.strategy.add_shards(sums); });
            run.machine.narrate(mpt::join("rank ", comm.rank(), " has updated ",
                                          mpt::size_of(owned.weights), " parameters"));
            run.strategy.publish(run.weights.span());
        }
        run.machine.narrating = false;
        ++now.attempted;
        sent.add(before, elements_sent::of(comm.sent));
        crossed.add(until_now, run.crossed());
        taken = {taken.steps + 1, taken.applied + applied, taken.kept + validated};
        validated = false;

        const double rate_now = double(tokens) / (bar.seconds() - began);
        const std::string why = now.scale.now().last.line(now.attempted);
        if (told && !why.empty()) bar.say(why);
        if (told)
            told->step({now.attempted, loss, lr, finite ? norm : NAN, S, !applied, rate_now}, bar);
        mpt::trace_counter(trace.get(), "loss scale", S);
        mpt::trace_counter(trace.get(), "device bytes", double(run.mem.books.total()));
        if (due(now.attempted, o.validate_every, o) || now.attempted == o.steps) {
            const double held_out = run.validation_loss();
            if (told) told->validation(now.attempted, held_out, bar);
            validated = true;
        }
        if (due(now.attempted, o.save_every, o)) {
            save(run, now, o.out);
            saved = now.attempted;
        }
    }
    if (now.attempted != saved) save(run, now, o.out);
    if (trace) { // the last rows of all ranks are in it
        comm.seen = nullptr;
        if (!told) trace->leave(); // weights in files are read for the sample, too
        comm.barrier();
        if (told) trace->finish();
    }
    if (told) bar.finish();
    if (shared(o) || run.away) {
        const memory_plan held =
            run.planned(now.rule.kind(), machine, taken.ahead(o.micro_batches));
        const auto all = all_accounts(comm, run.account(held, sent, taken, crossed));
        if (told) told->finish(all, taken.steps, now.attempted, now.scale.now().skipped);
    } else {
        told->finish(run.mem.books, now.attempted, now.scale.now().skipped);
    }
    if (now.attempted < o.steps) {
        if (told) told->stopped(now.attempted, stop);
        return stop ? 130 : 0;
    }
    std::signal(SIGINT, SIG_DFL); // everything is saved
    run.acts.reset();             // room for the sample's own
    if (told) told->sample_begins();
    if (told || o.zero == 3) // whose ranks gather the weights together
        write_sample(run.model, run.mem, run.strategy,
                     mpt::device_span<const T>(run.weights.span()), o, data.vocabulary,
                     bool(told));
    return 0;
}

template <class T>
int sample(const options& o) {
    const mpt::checkpoint saved{o.from, mpt::read_manifest(o.from)};
    const int vocabulary = mpt::scalar<int>(saved.list.state, "data_vocabulary");
    mpt::thread_pool pool(o.threads);
    mpt::memory mem;
    const mpt::gpt_config config = model_config(o, vocabulary);
    mpt::loops ops(pool, mem, mpt::gpt_scratch<T>(config, 1, config.context),
                   o.precision == "tf32");
    mpt::gpt<T, mpt::loops> model(config, ops);
    mpt::one_rank<T, mpt::loops> strategy(ops, model.map);
    std::vector<T> low(model.map.size());
    const mpt::safetensors::reader file(saved.path("weights"), "checkpoint");
    mpt::tensor_reads reads(file, mpt::advice(saved.list.state, lasting(o)));
    reads.want(mpt::named_tensors(model.map.tensors), "", std::span(low));
    reads.nothing_else();
    reads.read();
    mpt::buffer<T> weights(mem, mpt::kind::weights, low.size(), "weights");
    ops.copy_to_device(weights.span(), std::span<const T>(low));
    write_sample(model, mem, strategy, mpt::device_span<const T>(weights.span()), o, vocabulary);
    return 0;
}
