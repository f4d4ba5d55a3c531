// SPDX-License-Identifier: MIT
// training.hpp -- what a rank of a training run has, on any machine: buffers, batches, checkpoints.
// The steps stand in cpu_run.hpp and device_run.hpp.
#pragma once
#include "generate.hpp"
#include "memory_plan.hpp"
#include "model_config.hpp"
#include "offloaded.hpp"
#include "optimizer.hpp"
#include "options.hpp"
#include "report.hpp"
#include "run_folder.hpp"
#include "scaler.hpp"

#include "../common/kept_moments.hpp"

#include "mpt/base/memory.hpp"          // memory, buffer
#include "mpt/comm/communicator.hpp"    // communicator: rank, size, gather
#include "mpt/dist/consistency.hpp"     // check_same_weights
#include "mpt/dist/consolidate.hpp"     // shares, consolidate, distribute
#include "mpt/dist/partition.hpp"       // partition
#include "mpt/dist/strategy_sizes.hpp"  // sizes_of: what to allocate
#include "mpt/nn/gpt.hpp"               // gpt: forward, backward; strategy
#include "mpt/numeric/cast.hpp"         // cast
#include "mpt/train/checkpoint.hpp"     // save_checkpoint, finish_checkpoint
#include "mpt/train/data.hpp"           // token_data, draw_batch, validation_batch
#include "mpt/train/master_weights.hpp" // master_of, master_size
#include "mpt/train/saved_tensors.hpp"  // add_tensors, tensor_reads, scalar
#include "mpt/train/update_pass.hpp"    // optimizer_state

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

inline std::atomic<int> interrupted = 0; // ranks that are threads all look at it

// The first Ctrl-C asks for a checkpoint, the second ends the program.
inline void save_on_interrupt() {
    const auto ask = [](int signal) {
        interrupted = 1;
        std::signal(signal, SIG_DFL);
    };
    std::signal(SIGINT, ask);
    std::signal(SIGTERM, ask);
}

/// Where in the layout the parameters lie that a rank updates: all, in ddp.
inline mpt::pieces<float> owned_places(const options& o, const mpt::layout& map,
                                       const mpt::partition& cut, int rank) {
    if (o.zero == 0) return {{{nullptr, map.size()}, 0}};
    return cut.pieces_of<float>(
        rank, [&](int u) { return mpt::device_span<float>(nullptr, cut.shard(u)); });
}

/// What lives as long as the run. Every byte is in `mem`'s ledger. kind: what the optimizer keeps.
/// Machine: cpu_machine, or device_machine: who computes, with which operations, in whose memory,
/// by which strategy.
template <class T, class Machine>
struct training {
    using operations = typename Machine::operations;

    training(const options& o, const mpt::token_data& data, mpt::optimizer_kind kind,
             mpt::communicator& comm)
        : o(o), data(data), comm(comm),
          data_sum(mpt::hex8(mpt::crc32c(std::as_bytes(std::span(data.tokens))))), machine(o),
          mem(machine.mem), config(model_config(o, data.vocabulary)),
          ops(machine.template make<T>(o, config)), model(config, ops, o.seed), P(model.map.size()),
          cut(model.map, comm.size()), sizes(sizes_here()), rooms(rooms_of(o, sizes)),
          leaving(way_out()), filed(weights_elsewhere()), held_(follow()), strategy(*held_),
          weights(mem, mpt::kind::weights, sizes.weights, "weights"),
          grads_(mem, mpt::kind::grads, rooms.micro, "gradients"),
          sums_(mem, mpt::kind::sums, rooms.sum, "fp32 sums of gradients"),
          master_(mem, mpt::kind::master,
                  leaving || o.stochastic_rounding ? 0 : mpt::master_size<T>(sizes.owned),
                  "fp32 master weights"),
          moments(mem, model.map, kind, o.seed,
                  leaving ? mpt::pieces<float>() : owned_places(o, model.map, cut, comm.rank())),
          away(states_elsewhere()),
          inputs(mem, mpt::kind::data, rows() * std::size_t(o.context), "inputs"),
          targets(mem, mpt::kind::data, rows() * std::size_t(o.context), "targets"),
          host_inputs(inputs.size()), host_targets(targets.size()) {
        acts.emplace(mem, config, o.batch, o.context, plan(o));
        grads = {grads_.span(), sums_.span()};
        if (leaving) grads = leaving->written(grads.micro, grads.sum);
    }

    static mpt::reduce_mode when(const options& o) {
        return reduces_once(o) ? mpt::reduce_mode::once : mpt::reduce_mode::every;
    }
    /// What has crossed between device and host since the beginning.
    moved crossed() const {
        return leaving ? moved{leaving->copies.bytes_out(), leaving->copies.bytes_in()} : moved();
    }
    /// What this rank has held and sent, beside what was planned. in_steps: of what has crossed.
    rank_account account(const memory_plan& plan, const elements_sent& sent,
                         const steps_taken& done, const moved& in_steps = {}) const {
        rank_account a;
        for (int p = 0; p < mpt::places; ++p)
            for (int k = 0; k < mpt::kinds; ++k)
                a.held.at(mpt::kind(k), mpt::place(p)) =
                    mem.books.at_peak(mpt::kind(k), mpt::place(p));
        a.planned = plan.bytes;
        const std::size_t whole = o.zero == 0 ? P : cut.padded_size(),
                          mine = o.zero == 0 ? P : cut.owned(comm.rank());
        const auto padding = [&](std::size_t size) { // of a buffer, whole or this rank's part
            return size == 0 ? 0 : size == whole ? whole - P : size - mine;
        };
        a.padding = sizeof(T) * (padding(sizes.weights) + padding(rooms.micro)) +
                    sizeof(float) * padding(rooms.sum);
        a.crossed = in_steps;
        a.to_cross = planned_moves(departure_of(o), sizes, sizeof(T), o.micro_batches, done);
        if (filed)
            a.to_cross.in =
                planned_fetches(sizes, cut.owned(0, comm.rank()), sizeof(T), o.micro_batches, done);
        a.sent = sent;
        a.promised =
            planned_traffic(o, model.map, cut, comm.rank(), mpt::element_code<T>::value, done,
                            o.optimizer == "lamb" ? 2 * model.map.tensors.size() : 0);
        return a;
    }
    static mpt::checkpointing plan(const options& o) {
        return mpt::checkpointing::parse(o.checkpointing, o.layers);
    }
    std::size_t rows() const { return std::size_t(o.batch); }
    /// The bytes of this rank, by formula. ahead: does a micro-batch gather units ahead?
    memory_plan planned(mpt::optimizer_kind kind, const machine_bytes& extra,
                        bool ahead = true) const {
        const parameter_cost each{sizeof(T), sizeof(T) < 4 && !o.stochastic_rounding, kind};
        const mpt::checkpointing acts = plan(o);
        memory_plan p = plan_memory(config, acts, each, o.micro_batches, o.batch, extra);
        const bool every = o.micro_batches == 1 || !reduces_once(o);
        if (shared(o))
            share_out(
                p,
                {o.zero, comm.size(), sizes,
                 kept_moments::sizes(model.map, kind, owned_places(o, model.map, cut, comm.rank())),
                 whole_units(o.zero, cut, acts, every, ahead, bool(filed)), P},
                each);
        if (leaving)
            move_out(p, {departure_of(o), o.offload == "file", sizeof(T), away->store->moments(),
                         sizes, rooms, largest_owned(cut, o.zero, comm.rank()),
                         mpt::units_in_flight(acts, model.map.units[0].size(),
                                              model.map.units[1].size(), false, true)
                             .grads,
                         bool(filed)});
        return p;
    }
    /// My part of the weights becomes this: the master's, and the weights rounded to nearest.
    /// values(begin, span): fills the span with elements `begin` and on of the whole; where both
    /// are away it is asked for each twice.
    template <class Values>
    void set_weights(Values values) {
        const mpt::optimizer_state<T> own = owned();
        std::vector<float> wide;
        std::vector<T> low;
        const auto round = [&](std::span<const float> from, mpt::device_span<T> to) {
            low.resize(from.size());
            mpt::cast(from.data(), low.data(), low.size());
            ops.copy_to_device(to, std::span<const T>(low));
        };
        if (away)
            away->steps.begin([&](std::size_t begin, std::span<float> master) {
                values(begin, master);
                if (!filed) round(master, part_of(own.weights, begin, master.size()));
            });
        if (filed)
            filed->begin([&](std::size_t begin, std::span<T> to) {
                wide.resize(to.size());
                values(begin, std::span(wide));
                mpt::cast(wide.data(), to.data(), to.size());
            });
        for (std::size_t p = 0; p < own.weights.size() && !away; ++p) {
            const auto& [mine, begin] = own.weights[p];
            for (std::size_t i = 0; i < mine.size(); i += wide.size()) {
                wide.resize(std::min(mine.size() - i, std::size_t(1) << 20));
                values(begin + i, std::span(wide));
                if (master_.size() > 0)
                    ops.copy_to_device(own.master[p].data.subspan(i, wide.size()),
                                       std::span<const float>(wide));
                round(wide, mine.subspan(i, wide.size()));
            }
        }
        strategy.publish(weights.span());
    }
    /// A packed buffer of what I own, one span a unit; in ddp, where I own all, one span. entries:
    /// as kept_moments::each says.
    template <class U>
    std::vector<mpt::device_span<U>> parts(mpt::device_span<U> packed,
                                           kept_moments::entries entries) {
        if (o.zero == 0) return {packed};
        return shares_of(entries).by_unit(packed, comm.rank());
    }
    /// What I own of these weights: the strategy's, or a copy of what is in files, packed shards.
    mpt::pieces<T> my_weights(mpt::device_span<T> from) {
        if (!filed) return strategy.mine(from);
        return cut.pieces_of<T>(comm.rank(), [&](int u) { return cut.shard_of(from, u); });
    }
    std::vector<mpt::device_span<T>> weight_parts(mpt::device_span<T> from) {
        if (o.zero == 0) return {from};
        std::vector<mpt::device_span<T>> mine(model.map.units.size());
        for (const auto& [data, begin] : my_weights(from))
            mine[std::size_t(model.map.tensor_of(begin).unit)] = data;
        return mine;
    }
    /// Room of the device for what is on its way between ranks and a host, as large on each rank.
    template <class U>
    mpt::device_span<U> landing() {
        return machine.template landing<U>(o, config, ops);
    }
    mpt::shares shares_of(kept_moments::entries entries) const {
        if (!entries) return mpt::shares(cut);
        return mpt::shares(cut, [&](std::size_t begin, std::size_t size) {
            return mpt::sizes_of_moments(model.map, mpt::pieces<float>{{{nullptr, size}, begin}}).*
                   entries;
        });
    }
    /// What the optimizer updates: my part, which on one rank is all.
    mpt::optimizer_state<T> owned() {
        const auto mine = strategy.mine(weights.span());
        if (away) return {{}, {}, {}, mine, {}}; // it has the rest
        if (o.stochastic_rounding) return {{}, {}, {}, mine, o.seed};
        return {mpt::master_of(master_.span(), mine), {}, {}, mine, {}};
    }

    /// Micro-batch `micro` of attempted step `step`.
    mpt::batch draw(long step, int micro) {
        const long sample = (long(micro) * comm.size() + comm.rank()) * o.batch;
        mpt::draw_batch(data, o.seed, step, sample, o.batch, o.context, host_inputs, host_targets);
        return put({inputs.span(), targets.span(), o.batch, o.context, micro, step, sample});
    }
    /// Held-out samples first to first + batch of `samples`.
    mpt::batch held_out(int samples, int first) {
        mpt::validation_batch(data, samples, first, o.batch, o.context, host_inputs, host_targets);
        return put({inputs.span(), targets.span(), o.batch, o.context, 0, 0, 0});
    }

    /// Mean loss of the held-out part, without dropout. Ranks take turns with its batches, which
    /// are added in their order: the same number however many ranks there are.
    double validation_loss() {
        mpt::gpt_config still = config;
        still.dropout = 0;
        mpt::gpt<T, operations> reader(still, ops);
        const int batches = (256 + o.batch - 1) / o.batch; // 256 samples or a little more
        std::vector<double> mine;
        for (int i = comm.rank(); int(mine.size()) * comm.size() < batches; i += comm.size()) {
            const int at = std::min(i, batches - 1); // who has none joins in: units are gathered
            mine.push_back(reader.forward(strategy, weights.span(),
                                          held_out(batches * o.batch, at * o.batch), *acts));
        }
        const std::vector<double> all = comm.gather(mine); // rank by rank
        double sum = 0;
        for (int i = 0; i < batches; ++i)
            sum += all[std::size_t(i % comm.size()) * mine.size() + std::size_t(i / comm.size())];
        return sum / (double(batches) * o.batch * o.context);
    }

    const options& o;
    const mpt::token_data& data;
    mpt::communicator& comm;
    std::string data_sum; // CRC-32C of its tokens: the place in the data is one in this text
    Machine machine;
    mpt::memory& mem;
    mpt::gpt_config config;
    operations ops;
    mpt::gpt<T, operations> model;
    std::size_t P; // parameters
    mpt::partition cut;
    mpt::strategy_sizes sizes; // elements of the buffers below, but of those that --offload moves
    gradient_rooms rooms;      // ... of those for gradients
    std::unique_ptr<gradients_away<T>> leaving;  // with --offload: their way
    std::unique_ptr<mpt::weight_place<T>> filed; // weights in files: their place
    std::unique_ptr<mpt::strategy<T>> held_;
    mpt::strategy<T>& strategy;
    mpt::buffer<T> weights, grads_;
    mpt::buffer<float> sums_, master_;
    kept_moments moments;
    std::unique_ptr<states_away<T>> away; // with --offload: master and moments, and the steps
    mpt::buffer<int> inputs, targets;
    std::vector<int> host_inputs, host_targets;
    std::optional<mpt::gpt_acts<T>> acts;
    mpt::gradients<T> grads;

private:
    // Of a machine without it, --offload is refused.
    static constexpr bool offloads = requires { Machine::offloads; };
    mpt::strategy_sizes sizes_here() const {
        mpt::strategy_sizes n =
            mpt::sizes_of(o.zero, model.map, cut, comm.rank(), o.micro_batches, when(o));
        if (offloads && weights_in_files(o)) n.weights = 0;
        return n;
    }
    std::unique_ptr<gradients_away<T>> way_out() {
        if constexpr (offloads)
            if (o.offload != "none")
                return std::make_unique<gradients_away<T>>(o, rooms, mem, comm.seen);
        return nullptr;
    }
    std::unique_ptr<mpt::weight_place<T>> weights_elsewhere() {
        if constexpr (offloads)
            if (leaving)
                return weights_away<T>(o, mem, model.map, cut, comm.rank(), leaving->copies,
                                       comm.seen);
        return nullptr;
    }
    std::unique_ptr<mpt::strategy<T>> follow() {
        if constexpr (offloads)
            if (leaving)
                return machine.template strategy<T>(o, comm, ops, model.map, *leaving, filed.get());
        return machine.template strategy<T>(o, comm, ops, model.map);
    }
    std::unique_ptr<states_away<T>> states_elsewhere() {
        if constexpr (offloads)
            if (leaving)
                return std::make_unique<states_away<T>>(
                    o, mem, model.map, strategy.mine(weights.span()), filed.get(),
                    moments.numbers(), comm.rank(), leaving->copies, comm.seen);
        return nullptr;
    }
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

/// A buffer that a checkpoint keeps, as this rank holds it.
template <class U>
struct saved_buffer {
    const char *file, *prefix;             // what stands before a tensor's name
    std::vector<mpt::device_span<U>> mine; // one span a unit; of all, in ddp
    mpt::shares cut;                       // who has what
};

/// On the host, a copy of what is away: what a checkpoint is made of and read into.
template <class T>
struct states_copy {
    template <class Machine>
    explicit states_copy(training<T, Machine>& run)
        : weights(host, mpt::kind::weights, run.filed ? run.cut.packed_size() : 0, "weights"),
          master(host, mpt::kind::master, run.sizes.owned, "fp32 master weights"),
          moments(host, run.model.map, run.moments.kind, run.o.seed,
                  owned_places(run.o, run.model.map, run.cut, run.comm.rank())) {}

    mpt::packed_states<float> spans() {
        const auto all = [](mpt::buffer<float>& x) { return std::span(x.span().data(), x.size()); };
        return {all(master), all(moments.m), all(moments.v)};
    }

    /// From where they are.
    template <class Machine>
    void fill(training<T, Machine>& run) {
        run.away->steps.copy_to(spans());
        for (int u = 0; run.filed && u < run.cut.units(); ++u)
            run.filed->fetch(u, run.cut.shard_of(weights.span(), u));
    }
    /// To there, when it was read.
    template <class Machine>
    void put(training<T, Machine>& run) {
        const mpt::pieces<T> mine = run.my_weights(weights_of(run));
        float* to = master.span().data();
        if (mpt::own_master<T>) // saved once, as weights
            for (const auto& [data, begin] : mine)
                for (std::size_t i = 0; i < data.size(); ++i) *to++ = mpt::widen(data.data()[i]);
        const mpt::packed_states<float> all = spans();
        run.away->steps.copy_from({all.master, all.m, all.v});
        if (run.filed)
            run.filed->begin([&](std::size_t begin, std::span<T> part) {
                std::copy_n(part_of(mine, begin, part.size()).data(), part.size(), part.data());
            });
    }
    /// All weights that I have: the copy, or those on the device.
    template <class Machine>
    mpt::device_span<T> weights_of(training<T, Machine>& run) {
        return (run.filed ? weights : run.weights).span();
    }

    mpt::memory host; // not in the run's books, as no copy for a checkpoint is
    mpt::buffer<T> weights; // packed shards; empty where they are on the device
    mpt::buffer<float> master;
    kept_moments moments;
};

/// Every one of them: each(saved_buffer). Weights that are their master's rounded copy are kept
/// too: `sample` reads no more than them. The same list on every rank.
template <class T, class Machine, class Each>
void saved_buffers(training<T, Machine>& run, states_copy<T>* copy, Each each) {
    each(saved_buffer<T>{"weights", "",
                         run.weight_parts(copy ? copy->weights_of(run) : run.weights.span()),
                         run.shares_of({})});
    if (!mpt::own_master<T> && !run.o.stochastic_rounding)
        each(saved_buffer<float>{"master", "",
                                 run.parts((copy ? copy->master : run.master_).span(), {}),
                                 run.shares_of({})});
    (copy ? copy->moments : run.moments)
        .each([&]<class U>(const char* name, mpt::device_span<U> x, kept_moments::entries entries) {
            each(saved_buffer<U>{"moments", name, run.parts(x, entries), run.shares_of(entries)});
        });
}

/// All of it on rank 0's host, in `room` where it is not there already; nothing elsewhere.
template <class T, class Machine, class U>
std::span<U> consolidated(training<T, Machine>& run, const saved_buffer<U>& x,
                          std::vector<U>& room) {
    if (run.o.zero == 0)
        return run.comm.rank() == 0 ? run.ops.on_host(x.mine[0], room) : std::span<U>();
    if (run.comm.rank() == 0) room.resize(x.cut.total());
    const std::vector<mpt::device_span<const U>> mine(x.mine.begin(), x.mine.end());
    mpt::consolidate(run.comm, x.cut, mine, std::span<U>(room), run.template landing<U>(), run.ops);
    return room;
}

/// Throws where a rank has drifted away from the others; in zero3 a weight is on one rank alone.
template <class T, class Machine>
void check_ranks(training<T, Machine>& run) {
    if (run.comm.size() == 1 || run.o.zero == 3) return;
    mpt::check_same_weights<T>(run.ops, run.comm, run.model.map, run.strategy, run.weights.span());
}

/// A checkpoint, by all ranks: rank 0 writes what was theirs, so the files do not tell how many
/// there were. Where one fails all end, and the checkpoint before stays. With it go options by
/// their names, "scaler.KEY", counts. Random numbers and the
/// place in the data need no words of their own: they are computed from seed and attempted_steps.
template <class T, class Machine>
void save(training<T, Machine>& run, const state& now, const std::string& dir) {
    check_ranks(run);
    std::map<std::string, std::string> words = lasting(run.o);
    for (const auto& [key, value] : now.scale.state()) words["scaler." + key] = value;
    words["data_vocabulary"] = std::to_string(run.data.vocabulary);
    words["data_crc32c"] = run.data_sum;
    words["attempted_steps"] = std::to_string(now.attempted);
    words["applied_steps"] = std::to_string(now.rule.applied());
    const auto tensors = mpt::named_tensors(run.model.map.tensors);
    std::vector<mpt::checkpoint_file> files;
    std::vector<std::shared_ptr<void>> rooms; // the copies on the host, until all is written
    const auto copy = run.away ? std::make_unique<states_copy<T>>(run) : nullptr;
    if (copy) copy->fill(run);
    saved_buffers(run, copy.get(), [&]<class U>(const saved_buffer<U>& x) {
        const std::size_t size = x.cut.total();
        if (size == 0) return;
        const auto room = std::make_shared<std::vector<U>>();
        rooms.push_back(room);
        const std::span<const U> all = consolidated(run, x, *room);
        if (run.comm.rank() != 0) return;
        if (files.empty() || files.back().name != x.file) files.push_back({x.file, {}});
        mpt::add_tensors(files.back().tensors, tensors_of(tensors, x.prefix, size), x.prefix, all);
    });
    if (run.comm.rank() == 0)
        mpt::save_checkpoint(checkpoints_of(dir), std::uint64_t(now.attempted), std::move(files),
                             std::move(words));
    run.comm.barrier(); // where rank 0 has failed, all end here
}

/// From the checkpoint in `folder`, whose files were found whole. Nothing changes unless all fits.
template <class T, class Machine>
void load(training<T, Machine>& run, state& now, const std::string& folder) {
    const mpt::checkpoint saved{folder, mpt::read_manifest(folder)};
    const std::map<std::string, std::string>& words = saved.list.state;
    const auto sum = words.find("data_crc32c"); // not in those of older versions
    mpt::check(sum == words.end() || sum->second == run.data_sum, "data ", run.data.name,
               ": the CRC-32C of its tokens is ", run.data_sum, ", the run's data had ",
               sum == words.end() ? "" : sum->second,
               "; give that text with --data, or begin another run");
    const std::string advice = mpt::advice(words, lasting(run.o));
    const auto tensors = mpt::named_tensors(run.model.map.tensors);
    std::vector<std::function<void()>> put;
    std::map<std::string, std::unique_ptr<mpt::safetensors::reader>> readers;
    std::map<std::string, mpt::tensor_reads> reads;
    const auto copy = run.away ? std::make_unique<states_copy<T>>(run) : nullptr;
    saved_buffers(run, copy.get(), [&]<class U>(const saved_buffer<U>& x) {
        const std::size_t size = x.cut.total();
        if (size == 0) return;
        const bool sharded = run.o.zero > 0; // then rank 0 reads for all
        const auto room = std::make_shared<std::vector<U>>();
        std::span<U> host;
        if (!sharded) host = run.ops.on_host(x.mine[0], *room);
        if (sharded && run.comm.rank() == 0) host = *room = std::vector<U>(size);
        if (!host.empty()) {
            auto& reader = readers[x.file];
            if (!reader)
                reader =
                    std::make_unique<mpt::safetensors::reader>(saved.path(x.file), "checkpoint");
            reads.try_emplace(x.file, *reader, advice)
                .first->second.want(tensors_of(tensors, x.prefix, size), x.prefix, host);
        }
        put.push_back([&run, x, room, host, sharded] {
            if (sharded)
                mpt::distribute(run.comm, x.cut, std::span<const U>(host), x.mine,
                                run.template landing<U>(), run.ops);
            else
                run.ops.copy_to_device(x.mine[0], host);
        });
    });
    for (const auto& [file, r] : reads) r.nothing_else();
    for (const auto& [file, r] : reads) r.read();
    for (const auto& one : put) one();
    if (copy) copy->put(run);
    run.strategy.publish(run.weights.span());
    std::map<std::string, std::string> scaler;
    for (const auto& [key, value] : words)
        if (key.rfind("scaler.", 0) == 0) scaler[key.substr(7)] = value;
    now.scale.restore(scaler);
    now.attempted = mpt::scalar<long>(words, "attempted_steps");
    now.rule.applied() = mpt::scalar<long>(words, "applied_steps");
}

/// Initial weights, each rank its part, or those of --init; moments 0.
template <class T, class Machine>
void begin(training<T, Machine>& run) {
    if (!run.o.init.empty()) {
        // Rank 0 reads for all, if what ranks hand each other may be the host's; else each does.
        const bool sharded = run.o.zero > 0 && run.template landing<float>().empty();
        std::vector<float> all(!sharded || run.comm.rank() == 0 ? run.P : 0);
        if (!all.empty()) read_weights(run.o.init, mpt::named_tensors(run.model.map.tensors), all);
        if (sharded) {
            std::vector<float> mine(run.sizes.owned);
            const mpt::device_span<float> packed(mine.data(), mine.size());
            mpt::distribute(run.comm, run.shares_of({}), std::span<const float>(all),
                            run.parts(packed, {}));
            all.swap(mine);
        }
        const mpt::device_span<float> here(all.data(), all.size());
        const mpt::pieces<float> from =
            sharded
                ? mpt::pieces_of(here, owned_places(run.o, run.model.map, run.cut, run.comm.rank()))
                : mpt::pieces<float>{{here, 0}};
        run.set_weights([&](std::size_t begin, std::span<float> part) {
            std::copy_n(part_of(from, begin, part.size()).data(), part.size(), part.data());
        });
    } else {
        run.set_weights([&](std::size_t begin, std::span<float> part) {
            mpt::initial_values(run.model.map, run.o.seed, begin, part);
        });
    }
    run.moments.begin(run.ops);
}

/// The run's data are in place: from a checkpoint, or anew, and then `o.out` is its folder, which
/// rank 0 alone touches.
template <class T, class Machine>
void start(training<T, Machine>& run, state& now, options& o) {
    if (o.sample_tokens > 0) prompt_tokens(o.prompt, run.data.vocabulary); // now, not at the end
    if (o.resume) {
        load(run, now, o.from);
        if (run.comm.rank() != 0) return;
        const std::string dir = checkpoints_of(o.out); // a crash may have left it half in order
        if (o.from == dir + '/' + mpt::checkpoints_in(dir).at(0))
            mpt::finish_checkpoint(dir, {o.from, mpt::read_manifest(o.from)});
        return;
    }
    begin(run);
    if (run.comm.rank() != 0) return;
    if (o.out.empty())
        o.out = fresh_run();
    else
        claim(o.out);
}

/// The last step of this call. Throws where it lies behind the run.
inline long last_step(const options& o, long attempted) {
    const long last = o.stop_after ? o.stop_after : o.steps;
    mpt::check(attempted < last || attempted == o.steps, "--stop-after ", o.stop_after,
               ": the run in ", o.out, " is at step ", attempted, " already; give a later one");
    return last;
}

/// Is something due every `every` steps, 0: ten times a run?
inline bool due(long step, long every, const options& o) {
    return step % (every ? every : std::max(1L, o.steps / 10)) == 0;
}
