// SPDX-License-Identifier: MIT
/// @file away_rig.hpp
/// A rank of stage 3 whose states, and whose weights perhaps, are on the host or in files. Its
/// gradients depend on the weights it was given: old or wrong ones do not go unnoticed.
#pragma once
#include "mpt/comm/world.hpp"
#include "mpt/dist/offload_place.hpp"
#include "mpt/dist/strategy_sizes.hpp"
#include "mpt/dist/zero3.hpp"
#include "mpt/train/adamw.hpp"
#include "offload_rig.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace rig {

/// Units of sizes at the edges of blocks, pages and shards.
inline layout away_units() {
    layout map;
    for (const std::size_t n : {513, 1, 511, 4097, 512, 4095}) {
        map.add_unit("unit of " + std::to_string(n));
        map.add("x" + std::to_string(n), {n}, 0);
    }
    return map;
}

/// Both on the device, or neither.
struct away_plan {
    offload_to weights = offload_to::none, states = offload_to::none;
    int micros = 1;
    reduce_mode mode = reduce_mode::every;
    int ahead = 1;
    file_settings files = {};
    std::uint64_t run = new_run();
};

template <class T>
struct away_rank {
    /// shape: what is made of the place of the weights, for sabotage.
    using shape = std::function<std::unique_ptr<weight_place<T>>(std::unique_ptr<weight_place<T>>)>;

    away_rank(communicator& c, const layout& l, const away_plan& p, const shape& around = {})
        : comm(c), map(l), plan(p), cut(map, comm.size()), away(m.mem, copies, 700) {
        const bool gone = p.weights != offload_to::none;
        plan.files.rank = comm.rank();
        if (p.weights == offload_to::file) // of this run, as its number says
            place = std::make_unique<file_weights<T>>(m.mem, map, cut, comm.rank(), copies,
                                                      plan.files, p.run);
        else
            place = make_weights<T>(p.weights, m.mem, map, cut, comm.rank(), copies, plan.files);
        if (around) place = around(std::move(place));
        if (gone && !once()) {
            auto made = std::make_unique<zero3<T, host_sums<T>>>(away, map, comm, m.mem, p.micros,
                                                                 p.mode, p.ahead, place.get());
            narrate = &made->narrate;
            s = std::move(made);
        } else {
            s = std::make_unique<zero3<T>>(m.on, map, comm, m.mem, p.micros, p.mode, p.ahead,
                                           place.get());
        }
        n = sizes_of(3, map, cut, comm.rank(), p.micros, p.mode);
        weights = buffer<T>(m.mem, kind::weights, gone ? 0 : n.weights, "weights");
        micro = buffer<T>(m.mem, kind::grads, gone ? 0 : n.micro, "gradients");
        sum = buffer<float>(m.mem, kind::sums, gone && !once() ? cut.packed_size() : n.sum, "sums",
                            gone && !once() ? mpt::place::host : mpt::place::device);
        grads = {micro.span(), sum.span()};
        const auto first = first_weights<T>(map);
        const pieces<T> mine = s->mine(weights.span());
        if (p.states != offload_to::none) {
            store = make_states<T>(p.states, m.mem, map, mine, 2, plan.files);
            o.emplace(*place, *store, plan.files.seen);
            o->begin(first_master(first));
        } else {
            for (auto* x : {&r.master, &r.m, &r.v}) x->resize(n.owned);
        }
        if (gone)
            place->begin(
                [&](std::size_t begin, std::span<T> to) {
                    std::copy_n(first.begin() + long(begin), to.size(), to.begin());
                },
                256);
        else
            for (const piece<T>& x : mine)
                std::copy_n(first.data() + x.begin, x.data.size(), x.data.data());
        if (p.states == offload_to::none)
            cast(m.on, mine,
                 master_of<T>(own_master<T> ? device_span<wide_t<T>>() : span(r.master), mine));
    }

    /// f: what is done while a unit of weights is here.
    void forward_backward(
        int step, int k, const std::function<void(int)>& f = [](int) {}) {
        const int units = int(map.units.size());
        for (int u = 0; u < units; ++u) {
            s->acquire(weights.span(), u);
            f(u);
            s->release(u);
        }
        const device_span<T> around = s->collect(grads, 0);
        for (int u = units - 1; u >= 0; --u) {
            const device_span<const T> w = s->acquire(weights.span(), u);
            const device_span<T> g = u > 0 ? s->collect(grads, u) : around;
            const auto noise = numbers<T>(
                std::uint32_t(1 + 1000 * comm.rank() + 10 * step + k + 37 * u), w.size(), 1);
            for (std::size_t i = 0; i < w.size(); ++i)
                g.data()[i] =
                    mpt::narrow<T>(mpt::widen(noise[i]) + wide_t<T>(0.5) * mpt::widen(w.data()[i]));
            f(u);
            s->ready(grads, u, k);
            s->release(u);
        }
    }

    void step(
        int at, const std::function<void(int)>& f = [](int) {}) {
        for (int k = 0; k < plan.micros; ++k) forward_backward(at, k, f);
        const owned_gradients<T> g = s->finish(grads);
        if (o) {
            const bool there = sum.size() > 0 && !once(); // they left one by one
            std::vector<T> host_micro(g.micro.empty() || there ? 0 : n.owned);
            std::vector<float> host_sum(g.sum.empty() || there ? 0 : n.owned);
            o->step(rule, m.on, map, there ? g : leave(copies, g, span(host_micro), span(host_sum)),
                    factor_of(at), rate_of(at));
        } else {
            const pieces<T> mine = s->mine(weights.span());
            rule.step(
                m.on, map,
                optimizer_state<T>{
                    master_of<T>(own_master<T> ? device_span<wide_t<T>>() : span(r.master), mine),
                    span(r.m),
                    span(r.v),
                    mine,
                    {}},
                g, factor_of(at), rate_of(at));
        }
        s->publish(weights.span());
    }

    /// The whole weights, as they are gathered.
    std::vector<T> all_weights() {
        std::vector<T> all;
        for (int u = 0; u < int(map.units.size()); ++u) {
            const auto w = s->acquire(weights.span(), u);
            all.insert(all.end(), w.data(), w.data() + w.size());
            s->release(u);
        }
        s->publish(weights.span());
        return all;
    }
    /// ... and this rank's states.
    outcome<T> left() {
        outcome<T> x = r;
        if (o) {
            for (auto* to : {&x.master, &x.m, &x.v}) to->resize(n.owned);
            o->copy_to({x.master, x.m, x.v});
        }
        x.weights = all_weights();
        if constexpr (own_master<T>) x.master.clear(); // its own weights, seen already
        return x;
    }

    bool once() const { return plan.mode == reduce_mode::once && plan.micros > 1; }

    communicator& comm;
    const layout& map;
    away_plan plan;
    machine m{1};
    transfers copies;
    partition cut;
    host_sums<T> away;
    strategy_sizes n;
    std::unique_ptr<weight_place<T>> place;
    std::unique_ptr<strategy<T>> s;
    narrator* narrate = nullptr;
    buffer<T> weights, micro;
    buffer<float> sum;
    gradients<T> grads;
    std::unique_ptr<state_store<T>> store;
    std::optional<offload<T>> o;
    outcome<T> r; // states of a run that keeps them on the device
    adamw rule{.weight_decay = 0.1};
};

template <class T>
outcome<T> trained_away(communicator& comm, const away_plan& p, int steps,
                        const typename away_rank<T>::shape& around = {}) {
    const layout map = away_units();
    away_rank<T> run(comm, map, p, around);
    for (int i = 0; i < steps; ++i) run.step(i);
    return run.left();
}

} // namespace rig
