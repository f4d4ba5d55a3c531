// SPDX-License-Identifier: MIT
// training.hpp -- the whole training run: the step of docs/design.md with what a real run needs
// around it. Compiled once a precision (fp32.cpp, fp16.cpp, bf16.cpp).
#pragma once
#include "generate.hpp"
#include "memory_plan.hpp"
#include "model_config.hpp"
#include "optimizer.hpp"
#include "options.hpp"
#include "report.hpp"
#include "run_folder.hpp"
#include "scaler.hpp"

#include "../common/kept_moments.hpp"
#include "../common/progress.hpp"

#include "mpt/base/memory.hpp"          // memory, buffer
#include "mpt/base/thread_pool.hpp"     // thread_pool
#include "mpt/base/trace.hpp"           // trace, range
#include "mpt/dist/one_rank.hpp"        // one_rank: acquire, ready, finish, publish
#include "mpt/nn/gpt.hpp"               // gpt: forward, backward
#include "mpt/nn/gpt_scratch.hpp"       // gpt_scratch
#include "mpt/nn/loops.hpp"             // loops: the operations
#include "mpt/train/checkpoint.hpp"     // save_checkpoint
#include "mpt/train/clip.hpp"           // clip_factor
#include "mpt/train/data.hpp"           // token_data, draw_batch, validation_batch
#include "mpt/train/inspect.hpp"        // inspect, norm
#include "mpt/train/loss_scale.hpp"     // check_loss
#include "mpt/train/master_weights.hpp" // master_of, cast
#include "mpt/train/saved_tensors.hpp"  // add_tensors, tensor_reads, scalar
#include "mpt/train/update_pass.hpp"    // optimizer_state

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

inline volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C asks for a checkpoint, the second ends the program.
inline void save_on_interrupt() {
    const auto ask = [](int signal) {
        interrupted = 1;
        std::signal(signal, SIG_DFL);
    };
    std::signal(SIGINT, ask);
    std::signal(SIGTERM, ask);
}

/// What lives as long as the run. Every byte is in `mem`'s ledger. kind: what the optimizer keeps.
template <class T>
struct training {
    training(const options& o, const mpt::token_data& data, mpt::optimizer_kind kind)
        : o(o), data(data), pool(o.threads), mem(o.device_memory),
          config(model_config(o, data.vocabulary)),
          ops(pool, mem, scratch_bytes(), o.precision == "tf32"), model(config, ops, o.seed),
          strategy(ops, model.map), P(model.map.size()),
          weights(mem, mpt::kind::weights, P, "weights"),
          grads_(mem, mpt::kind::grads, P, "gradients"),
          sums_(mem, mpt::kind::sums, o.micro_batches > 1 ? P : 0, "fp32 sums of gradients"),
          master_(mem, mpt::kind::master, o.stochastic_rounding ? 0 : mpt::master_size<T>(P),
                  "fp32 master weights"),
          moments(mem, model.map, kind, o.seed),
          inputs(mem, mpt::kind::data, rows() * std::size_t(o.context), "inputs"),
          targets(mem, mpt::kind::data, rows() * std::size_t(o.context), "targets"),
          host_inputs(inputs.size()), host_targets(targets.size()) {
        acts.emplace(mem, config, o.batch, o.context, plan(o));
        grads = {grads_.span(), sums_.span()};
    }

    static mpt::checkpointing plan(const options& o) {
        return mpt::checkpointing::parse(o.checkpointing, o.layers);
    }
    std::size_t rows() const { return std::size_t(o.batch); }
    std::size_t scratch_bytes() const { return mpt::gpt_scratch<T>(config, o.batch, o.context); }
    /// Elements from `begin` on become these: the master's, and the weights rounded to nearest.
    void set_weights(std::size_t begin, std::span<const float> wide) {
        if (master_.size() > 0)
            ops.copy_to_device(master_.span().subspan(begin, wide.size()), wide);
        std::vector<T> low;
        for (std::size_t i = 0; i < wide.size(); i += low.size()) {
            low.resize(std::min(wide.size() - i, std::size_t(1) << 20));
            mpt::cast(wide.data() + i, low.data(), low.size());
            ops.copy_to_device(weights.span().subspan(begin + i, low.size()),
                               std::span<const T>(low));
        }
    }
    /// What the optimizer updates: my part, which on one rank is all.
    mpt::optimizer_state<T> owned() {
        const auto mine = strategy.mine(weights.span());
        if (o.stochastic_rounding) return {{}, {}, {}, mine, o.seed};
        return {mpt::master_of(master_.span(), mine), {}, {}, mine, {}};
    }

    /// Micro-batch `micro` of attempted step `step`.
    mpt::batch draw(long step, int micro) {
        const long sample = long(micro) * o.batch;
        mpt::draw_batch(data, o.seed, step, sample, o.batch, o.context, host_inputs, host_targets);
        return put({inputs.span(), targets.span(), o.batch, o.context, micro, step, sample});
    }
    /// Held-out samples first to first + batch of `samples`.
    mpt::batch held_out(int samples, int first) {
        mpt::validation_batch(data, samples, first, o.batch, o.context, host_inputs, host_targets);
        return put({inputs.span(), targets.span(), o.batch, o.context, 0, 0, 0});
    }

    /// Mean loss of the held-out part, without dropout.
    double validation_loss() {
        mpt::gpt_config still = config;
        still.dropout = 0;
        mpt::gpt<T, mpt::loops> reader(still, ops);
        const int batches = (256 + o.batch - 1) / o.batch; // 256 samples or a little more
        double sum = 0;
        for (int i = 0; i < batches; ++i)
            sum += reader.forward(strategy, weights.span(),
                                  held_out(batches * o.batch, i * o.batch), *acts);
        return sum / (double(batches) * o.batch * o.context);
    }

    const options& o;
    const mpt::token_data& data;
    mpt::thread_pool pool;
    mpt::memory mem;
    mpt::gpt_config config;
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    mpt::one_rank<T> strategy;
    std::size_t P; // parameters
    mpt::buffer<T> weights, grads_;
    mpt::buffer<float> sums_, master_;
    kept_moments moments;
    mpt::buffer<int> inputs, targets;
    std::vector<int> host_inputs, host_targets;
    std::optional<mpt::gpt_acts<T>> acts;
    mpt::gradients<T> grads;

private:
    mpt::batch put(const mpt::batch& b) {
        ops.copy_to_device(inputs.span(), host_inputs);
        ops.copy_to_device(targets.span(), host_targets);
        return b;
    }
};

/// What changes from step to step, besides the buffers.
struct state {
    optimizer rule;
    scaler scale;
    long attempted = 0; // steps begun; the schedule counts those applied
};

/// The tensors of a buffer: the model's, or one without a name of its own: kept_moments::each.
inline std::vector<mpt::named_tensor> tensors_of(const std::vector<mpt::named_tensor>& model,
                                                 const std::string& prefix, std::size_t size) {
    if (prefix.empty() || prefix.back() == '.') return model;
    return {{"", {size}, 0, size}};
}

/// Every buffer that a checkpoint keeps: each(file, what stands before a tensor's name, buffer).
/// Weights that are their master's rounded copy are kept too: `sample` reads no more than them.
template <class T, class Each>
void saved_buffers(training<T>& run, Each each) {
    each("weights", "", run.weights.span());
    if (!mpt::own_master<T>) each("master", "", run.master_.span());
    run.moments.each([&](const char* name, auto buffer) { each("moments", name, buffer); });
}

/// The rest of a checkpoint: options by their names, "scaler.KEY", counts. Random numbers and the
/// place in the data need no words of their own: they are computed from seed and attempted_steps.
template <class T>
void save(training<T>& run, const state& now, const std::string& dir) {
    std::map<std::string, std::string> words = lasting(run.o);
    for (const auto& [key, value] : now.scale.state()) words["scaler." + key] = value;
    words["data_vocabulary"] = std::to_string(run.data.vocabulary);
    words["attempted_steps"] = std::to_string(now.attempted);
    words["applied_steps"] = std::to_string(now.rule.applied());
    const auto tensors = mpt::named_tensors(run.model.map.tensors);
    std::vector<mpt::checkpoint_file> files;
    std::vector<std::shared_ptr<void>> rooms; // the copies on the host, until all is written
    saved_buffers(run, [&]<class U>(const char* file, const char* prefix, mpt::device_span<U> x) {
        if (x.size() == 0) return;
        const auto room = std::make_shared<std::vector<U>>();
        rooms.push_back(room);
        if (files.empty() || files.back().name != file) files.push_back({file, {}});
        mpt::add_tensors(files.back().tensors, tensors_of(tensors, prefix, x.size()), prefix,
                         std::span<const U>(run.ops.on_host(x, *room)));
    });
    mpt::save_checkpoint(checkpoints_of(dir), std::uint64_t(now.attempted), std::move(files),
                         std::move(words));
}

/// From the checkpoint in `folder`, whose files were found whole. Nothing changes unless all fits.
template <class T>
void load(training<T>& run, state& now, const std::string& folder) {
    const mpt::checkpoint saved{folder, mpt::read_manifest(folder)};
    const std::map<std::string, std::string>& words = saved.list.state;
    const std::string advice = mpt::advice(words, lasting(run.o));
    const auto tensors = mpt::named_tensors(run.model.map.tensors);
    std::vector<std::function<void()>> to_device;
    std::map<std::string, std::unique_ptr<mpt::safetensors::reader>> readers;
    std::map<std::string, mpt::tensor_reads> reads;
    saved_buffers(run, [&]<class U>(const char* file, const char* prefix, mpt::device_span<U> x) {
        if (x.size() == 0) return;
        auto& reader = readers[file];
        if (!reader)
            reader = std::make_unique<mpt::safetensors::reader>(saved.path(file), "checkpoint");
        const auto room = std::make_shared<std::vector<U>>();
        const std::span<U> host = run.ops.on_host(x, *room);
        reads.try_emplace(file, *reader, advice)
            .first->second.want(tensors_of(tensors, prefix, x.size()), prefix, host);
        to_device.push_back([&run, x, room, host] { run.ops.copy_to_device(x, host); });
    });
    for (const auto& [file, r] : reads) r.nothing_else();
    for (const auto& [file, r] : reads) r.read();
    for (const auto& copy : to_device) copy();
    std::map<std::string, std::string> scaler;
    for (const auto& [key, value] : words)
        if (key.rfind("scaler.", 0) == 0) scaler[key.substr(7)] = value;
    now.scale.restore(scaler);
    now.attempted = mpt::scalar<long>(words, "attempted_steps");
    now.rule.applied() = mpt::scalar<long>(words, "applied_steps");
}

/// Initial weights, a part at a time, or those of --init; moments 0.
template <class T>
void begin(training<T>& run) {
    if (!run.o.init.empty()) {
        std::vector<float> all(run.P);
        read_weights(run.o.init, mpt::named_tensors(run.model.map.tensors), all);
        run.set_weights(0, all);
    } else {
        std::vector<float> part(std::min(run.P, std::size_t(1) << 20));
        for (std::size_t i = 0; i < run.P; i += part.size()) {
            part.resize(std::min(part.size(), run.P - i));
            mpt::initial_values(run.model.map, run.o.seed, i, part);
            run.set_weights(i, part);
        }
    }
    run.moments.begin();
}

template <class T>
int train(const options& given) {
    options o = given;
    const mpt::token_data data = mpt::load_tokens(o.data.empty() ? MPT_CORPUS : o.data);
    mpt::require_context(data, o.context);
    state now{optimizer(o), scaler(o)};
    training<T> run(o, data, now.rule.kind());
    std::unique_ptr<mpt::trace> trace;
    if (!o.trace.empty()) trace = std::make_unique<mpt::trace>(o.trace);

    const auto rate = learning_rate(o);
    if (o.resume) {
        load(run, now, o.from);
    } else {
        begin(run);
        if (o.out.empty())
            o.out = fresh_run();
        else
            claim(o.out);
    }
    const auto owned = run.owned();
    long saved = o.resume ? now.attempted : -1; // the newest checkpoint's step

    const long last = o.stop_after ? o.stop_after : o.steps;
    mpt::check(now.attempted < last || now.attempted == o.steps, "--stop-after ", o.stop_after,
               ": the run in ", o.out, " is at step ", now.attempted, " already; give a later one");
    report told(o, data, run.config, run.P, sizeof(T), now.rule.kind(), run.scratch_bytes(),
                now.attempted);
    told.start();
    if (o.resume)
        std::fprintf(stderr, "resumed     %s, after step %ld\n", o.from.c_str(), now.attempted);
    save_on_interrupt();

    const long validate_every = o.validate_every ? o.validate_every : std::max(1L, o.steps / 10);
    const long save_every = o.save_every ? o.save_every : std::max(1L, o.steps / 10);
    const long tokens =
        long(o.micro_batches) * o.batch * o.context; // targets of a window: all of them
    progress bar(o.steps, now.attempted);

    while (now.attempted < last && !interrupted) {
        const mpt::range whole(trace.get(), mpt::lane::compute, "step");
        const double began = bar.seconds();
        const long step = now.attempted;
        const float S = now.scale.now().value;
        const double lr = rate(now.rule.applied());

        double loss = 0; // mean over the window's tokens
        for (int micro = 0; micro < o.micro_batches; ++micro) {
            const mpt::batch b = run.draw(step, micro);
            {
                const mpt::range r(trace.get(), mpt::lane::compute, "forward");
                loss += run.model.forward(run.strategy, run.weights.span(), b, *run.acts);
            }
            const mpt::range r(trace.get(), mpt::lane::compute, "backward");
            run.model.backward(run.strategy, run.weights.span(), b, *run.acts,
                               now.scale.now().seed(tokens), run.grads);
        }
        loss /= double(tokens);
        mpt::check_loss(loss, step + 1);

        const auto g = run.strategy.finish(run.grads); // mine, still scaled
        mpt::health health;
        {
            const mpt::range r(trace.get(), mpt::lane::compute, "inspect");
            health = mpt::inspect(run.ops, g);
        }
        const double norm = mpt::norm(health) / S; // unscaled, before clipping
        const bool applied = now.scale.update(health.finite, mpt::describe(health, run.model.map));
        if (applied) {
            const mpt::range r(trace.get(), mpt::lane::compute, "optimizer");
            const double factor = mpt::clip_factor(norm, o.clip) / S; // unscale and clip, in fp32
            now.rule.step(run.ops, run.model.map, owned, run.moments, g, factor, lr);
            run.strategy.publish(run.weights.span());
        }
        ++now.attempted;

        const double rate_now = double(tokens) / (bar.seconds() - began);
        const std::string why = now.scale.now().last.line(now.attempted);
        if (!why.empty()) bar.say(why);
        told.step({now.attempted, loss, lr, health.finite ? norm : NAN, S, !applied, rate_now},
                  bar);
        mpt::trace_counter(trace.get(), "loss scale", S);
        mpt::trace_counter(trace.get(), "device bytes", double(run.mem.books.total()));
        if (now.attempted % validate_every == 0 || now.attempted == o.steps)
            told.validation(now.attempted, run.validation_loss(), bar);
        if (now.attempted % save_every == 0) {
            save(run, now, o.out);
            saved = now.attempted;
        }
    }
    if (now.attempted != saved) save(run, now, o.out);
    bar.finish();
    told.finish(run.mem.books, now.attempted, now.scale.now().skipped);
    if (now.attempted < o.steps) {
        told.stopped(now.attempted, interrupted != 0);
        return interrupted ? 130 : 0;
    }
    std::signal(SIGINT, SIG_DFL); // everything is saved
    run.acts.reset();             // room for the sample's own
    told.sample_begins();
    write_sample(run.model, run.mem, run.strategy, mpt::device_span<const T>(run.weights.span()),
                 o);
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
    mpt::one_rank<T> strategy(ops, model.map);
    std::vector<T> low(model.map.size());
    const mpt::safetensors::reader file(saved.path("weights"), "checkpoint");
    mpt::tensor_reads reads(file, mpt::advice(saved.list.state, lasting(o)));
    reads.want(mpt::named_tensors(model.map.tensors), "", std::span(low));
    reads.nothing_else();
    reads.read();
    mpt::buffer<T> weights(mem, mpt::kind::weights, low.size(), "weights");
    ops.copy_to_device(weights.span(), std::span<const T>(low));
    write_sample(model, mem, strategy, mpt::device_span<const T>(weights.span()), o);
    return 0;
}
