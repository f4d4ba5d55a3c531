// SPDX-License-Identifier: MIT
/// @file step.hpp
/// The ladder's step, for a precision and a model. Compiled once a precision.
#pragma once
#include "../dist/stages.hpp"
#include "models.hpp"
#include "mpt/base/crc32c.hpp"
#include "mpt/dist/global_norm.hpp"
#include "mpt/train/adam8bit.hpp"
#include "mpt/train/adamw.hpp"
#include "mpt/train/clip.hpp"
#include "mpt/train/inspect.hpp"
#include "mpt/train/lamb.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/master_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

namespace ladder {

template <class X>
std::uint32_t sum_of(const X* data, std::size_t n, std::uint32_t before = 0) {
    return crc32c(std::as_bytes(std::span(data, n)), before);
}

// ---- gradients that are tampered with on their way ----------------------------------------------

/// Passes everything on, and may change a unit's gradients before they are reported.
template <class T>
class meddling : public strategy<T> {
public:
    using change = std::function<void(device_span<T> unit_grads, int unit, int micro)>;
    meddling(strategy<T>& real, change meddle) : real_(real), meddle_(std::move(meddle)) {}
    device_span<const T> acquire(device_span<const T> w, int unit) override {
        return real_.acquire(w, unit);
    }
    void release(int unit) override { real_.release(unit); }
    device_span<T> collect(gradients<T>& g, int unit) override {
        return at_[unit] = real_.collect(g, unit);
    }
    void ready(gradients<T>& g, int unit, int micro) override {
        meddle_(at_[unit], unit, micro);
        real_.ready(g, unit, micro);
    }
    owned_gradients<T> finish(gradients<T>& g) override { return real_.finish(g); }
    pieces<T> mine(device_span<T> w) override { return real_.mine(w); }
    void publish(device_span<T> w) override { real_.publish(w); }
    void add_shards(std::span<double> sums) override { real_.add_shards(sums); }

private:
    strategy<T>& real_;
    change meddle_;
    std::map<int, device_span<T>> at_;
};

// ---- what the optimizer keeps -------------------------------------------------------------------

template <class T>
class updating {
public:
    updating(memory& mem, const layout& map, const pieces<T>& mine, rule which)
        : which_(which), master_(mem, kind::master, master_size<T>(size_of(mine)), "master") {
        const std::size_t n = size_of(mine);
        const bool low = which == rule::adam8bit;
        sizes_ = low ? sizes_of_moments(map, mine) : moment_sizes{};
        const std::size_t wide = low ? sizes_.wide : n;
        m_ = buffer<float>(mem, kind::moments, wide, "m");
        v_ = buffer<float>(mem, kind::moments, wide, "v");
        codes_ = buffer<std::uint8_t>(mem, kind::moments, 2 * sizes_.codes, "codes of m and v");
        absmax_ = buffer<float>(mem, kind::moments, 2 * sizes_.blocks, "absmax of m and v");
        state.weights = mine;
        state.master = master_of<T>(master_.span(), mine);
        state.m = m_.span(), state.v = v_.span();
        state.m_codes = codes_.span().first(sizes_.codes);
        state.v_codes = codes_.span().subspan(sizes_.codes, sizes_.codes);
        state.m_absmax = absmax_.span().first(sizes_.blocks);
        state.v_absmax = absmax_.span().subspan(sizes_.blocks, sizes_.blocks);
        state.begin();
    }

    block_moments<T> state; // views of the buffers here

    void step(const cpu& on, const layout& map, const owned_gradients<T>& g, double factor,
              double lr, strategy<T>& s) {
        const optimizer_state<T>& plain = state;
        if (which_ == rule::adamw) adamw_.step(on, map, plain, g, factor, lr);
        if (which_ == rule::adam8bit) adam8bit_.step(on, map, state, g, factor, lr);
        if (which_ == rule::lamb)
            lamb_.step(on, map, plain, g, factor, lr,
                       [&](std::span<double> sums) { s.add_shards(sums); });
    }

    /// CRC-32C of the moments of each piece.
    std::vector<std::uint32_t> sums(const layout& map) const {
        std::vector<std::uint32_t> all(state.weights.size());
        if (which_ == rule::adam8bit) {
            moment_sizes ignored;
            for (const moment_part& x : moment_parts(map, state.weights, ignored)) {
                const std::size_t n = x.end - x.begin;
                std::uint32_t& sum = all[x.piece];
                if (x.low) {
                    const std::size_t cells = (x.cell + n + moment_block - 1) / moment_block;
                    sum = sum_of(state.m_codes.data() + x.at, n, sum);
                    sum = sum_of(state.v_codes.data() + x.at, n, sum);
                    sum = sum_of(state.m_absmax.data() + x.block, cells, sum);
                    sum = sum_of(state.v_absmax.data() + x.block, cells, sum);
                } else {
                    sum = sum_of(state.m.data() + x.at, n, sum);
                    sum = sum_of(state.v.data() + x.at, n, sum);
                }
            }
            return all;
        }
        std::size_t at = 0;
        for (std::size_t p = 0; p < all.size(); ++p) {
            const std::size_t n = state.weights[p].data.size();
            all[p] = sum_of(state.v.data() + at, n, sum_of(state.m.data() + at, n));
            at += n;
        }
        return all;
    }

private:
    rule which_;
    adamw adamw_;
    adam8bit adam8bit_;
    lamb lamb_;
    moment_sizes sizes_;
    buffer<float> master_, m_, v_, absmax_;
    buffer<std::uint8_t> codes_;
};

// ---- the run ------------------------------------------------------------------------------------

/// sums: one of each of this rank's pieces. All shards' sums in (unit, rank) order, the owner's; a
/// rank that holds another's shard too (ddp) must have the same.
inline std::vector<std::uint32_t> from_owners(communicator& comm, const partition& cut,
                                              const std::vector<std::size_t>& begins,
                                              const std::vector<std::uint32_t>& sums) {
    const std::size_t N = std::size_t(cut.ranks());
    std::vector<double> mine(std::size_t(cut.units()) * N, -1);
    for (int u = 0; u < cut.units(); ++u)
        for (int r = 0; r < cut.ranks(); ++r)
            for (std::size_t p = 0; p < begins.size(); ++p)
                if (cut.owned(u, r) > 0 && begins[p] == cut.begin(u, r))
                    mine[std::size_t(u) * N + std::size_t(r)] = sums[p];
    const std::vector<double> all = comm.gather(mine);
    std::vector<std::uint32_t> owners;
    for (std::size_t i = 0; i < mine.size(); ++i) {
        const double of_owner = all[(i % N) * mine.size() + i];
        for (std::size_t r = 0; r < N; ++r) {
            const double held = all[r * mine.size() + i];
            check(held == -1 || held == of_owner, "rank ", r, " has other bits than rank ", i % N,
                  " in unit ", i / N);
        }
        owners.push_back(std::uint32_t(std::max(of_owner, 0.0)));
    }
    return owners;
}

/// The gradients of all owners, flat.
template <class T>
std::vector<float> flat(communicator& comm, const layout& map, const partition& cut,
                        const owned_gradients<T>& g) {
    std::vector<float> all(map.size());
    g.visit([&](const auto& parts) {
        for (const auto& p : parts)
            for (std::size_t i = 0; i < p.data.size(); ++i)
                all[p.begin + i] = float(widen(p.data.data()[i]));
    });
    for (int u = 0; u < cut.units(); ++u)
        for (int r = 0; r < cut.ranks(); ++r)
            comm.broadcast(rig::span(all).subspan(
                               cut.begin(u, r) < map.size() ? cut.begin(u, r) : 0, cut.owned(u, r)),
                           r);
    return all;
}

/// Owned pieces as they would be if padding were parameters.
template <class T>
void leak(owned_gradients<T>& g, const staged<T>& r, int me) {
    const auto widen_to_shard = [&](auto& parts) {
        for (auto& p : parts)
            for (int u = 0; u < r.cut.units(); ++u)
                if (p.begin == r.cut.begin(u, me)) p.data = {p.data.data(), r.cut.shard(u)};
    };
    widen_to_shard(g.micro);
    widen_to_shard(g.sum);
}

template <class T, class Model>
outcome train_as(communicator& comm, const trial& j, account* told) {
    thread_pool pool(1);
    memory mem;
    outcome out;
    {
        Model model(pool, mem, j);
        const layout& map = model.map();
        const std::size_t before = mem.books.total();
        staged<T> r(model.ops, map, comm, mem, {j.stage, j.micros, j.mode, j.ahead, j.bucket});
        updating<T> rule(mem, map, r.s->mine(r.weights.span()), j.optimizer);
        const std::size_t lasting = mem.books.total() - before;
        const int N = comm.size(), me = comm.rank();

        // Each rank makes the initial values of what it owns, and no others.
        for (const auto& p : rule.state.master)
            initial_values(map, 3, p.begin, std::span(p.data.data(), p.data.size()));
        cast(model.ops, rule.state.master, rule.state.weights);
        r.s->publish(r.weights.span());
        comm.sent.clear();

        loss_scale scale;
        scale.value = std::is_same_v<T, float> ? 4 : 1024;
        scale.interval = 2;
        int step = 0;
        meddling<T> s(*r.s, [&](device_span<T> g, int unit, int micro) {
            // An infinity on the last rank, in a shard of the first; unit 1 is cut over several.
            if (step == j.overflow && micro == 0 && unit == 1 && me == N - 1)
                g.data()[3] = narrow<T>(std::numeric_limits<wide_t<T>>::infinity());
            if (j.wrong == sabotage::lost_micro_gradient && micro == j.micros - 1 && me == N - 1)
                std::fill_n(g.data(), g.size(), T(0.0f));
            if (j.wrong == sabotage::bucket_by_arrival && me == 1)
                std::rotate(g.data(), g.data() + g.size() / 2, g.data() + g.size());
        });

        for (; step < j.steps; ++step) {
            const auto first = [&](int micro) { return long(micro * N + me) * j.rows; };
            std::vector<long> shown;
            long mine = 0;
            for (int k = 0; k < j.micros; ++k) {
                shown.push_back(model.show(step, first(k)));
                mine += shown.back();
            }
            const long tokens = long(comm.sum(double(mine))); // of all ranks' micro-batches
            const float S = scale.value;

            double loss = 0;
            for (int k = 0; k < j.micros; ++k) {
                model.show(step, first(k));
                if (j.only >= 0) model.only(j.only);
                loss += model.forward(s, r.weights.span(), k);
                float seed = scale.seed(tokens);
                if (j.wrong == sabotage::mean_of_means)
                    seed = S / float(std::max(1L, shown[std::size_t(k)]) * N * j.micros);
                model.backward(s, r.weights.span(), k, seed, r.grads);
            }
            owned_gradients<T> g = s.finish(r.grads); // my part, still scaled
            if (told && step == 0) {
                told->tokens = tokens;
                told->gradient = flat(comm, map, r.cut, g);
                comm.sent.clear();
            }
            if (j.wrong == sabotage::double_reduction) // what is there on all ranks, N times
                g.visit([&](const auto& parts) {
                    using E =
                        std::remove_const_t<std::remove_pointer_t<decltype(parts[0].data.data())>>;
                    for (const auto& p : parts)
                        for (std::size_t i = 0; i < p.data.size(); ++i) {
                            E& x = const_cast<E&>(p.data.data()[i]);
                            x = narrow<E>(wide_t<E>(N) * widen(x));
                        }
                });
            if (j.wrong == sabotage::padding_leaked) leak(g, r, me);

            const health h = inspect(model.ops, g);
            double length = mpt::norm(*r.s, map, g, h) / S;
            if (j.wrong == sabotage::no_agreement && !std::isfinite(length)) length = 0;
            if (j.wrong == sabotage::norm_of_each_rank)
                length = (j.stage == 0 ? std::sqrt(comm.sum(mpt::norm(h) * mpt::norm(h)))
                                       : mpt::norm(h)) /
                         S;
            const bool agreed = j.wrong == sabotage::no_agreement ? h.finite : comm.all(h.finite);
            if (scale.update(agreed)) {
                double factor = clip_factor(length, j.clip) / S; // unscale and clip, in fp32
                if (j.wrong == sabotage::update_before_unscale) factor *= S;
                if (j.wrong == sabotage::clip_before_unscale)
                    factor = clip_factor(length * S, j.clip) / S;
                rule.step(model.ops, map, g, factor, 0.01, s);
                if (j.wrong != sabotage::stale_weights) s.publish(r.weights.span());
            }
            out.loss.push_back(comm.sum(loss) / double(tokens));
            out.norm.push_back(agreed ? length : -1);
            out.scale.push_back(S);
        }
        if (told) {
            told->sizes = r.n;
            told->parameters = map.size();
            for (int u = 0; u < r.cut.units(); ++u) told->shard.push_back(r.cut.shard(u));
            for (const tensor_info& t : map.tensors) told->tensors.push_back(t.begin);
            told->tensors.push_back(map.size());
            told->lasting = lasting;
            told->peak_in_flight = mem.books.peak(kind::comm);
            for (int v = 0; v < verbs; ++v)
                for (int e = 0; e < element_kinds; ++e)
                    told->traffic[verb(v)][element(e)] = comm.sent.of(verb(v), element(e));
            r.s->publish(r.weights.span()); // zero3 keeps a unit until then
            told->left = mem.books.now(kind::comm);
        }

        std::vector<std::size_t> begins;
        std::vector<std::uint32_t> shards, master;
        for (const piece<T>& p : rule.state.weights) {
            begins.push_back(p.begin);
            shards.push_back(sum_of(p.data.data(), p.data.size()));
        }
        for (const auto& p : rule.state.master)
            master.push_back(sum_of(p.data.data(), p.data.size()));
        out.shards = from_owners(comm, r.cut, begins, shards);
        out.master = from_owners(comm, r.cut, begins, master);
        out.moments = from_owners(comm, r.cut, begins, rule.sums(map));
        for (std::size_t u = 0; u < map.units.size(); ++u) {
            const device_span<const T> w = r.s->acquire(r.weights.span(), int(u));
            out.weights.push_back(sum_of(w.data(), w.size()));
            r.s->release(int(u));
        }
    }
    check(mem.books.total() == 0, "the run leaves ", mem.books.total(), " bytes");
    return out;
}

template <class T>
outcome train_as(communicator& comm, const trial& j, account* told) {
    return j.mlp ? train_as<T, mlp_model<T>>(comm, j, told)
                 : train_as<T, gpt_model<T>>(comm, j, told);
}

} // namespace ladder
