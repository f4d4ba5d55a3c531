// SPDX-License-Identifier: MIT
/// @file ladder.hpp
/// The training step of every stage, on any communicator, and what came of it.
///
/// Idea     One step, written once; ddp and ZeRO-1, 2, 3 differ in the strategy alone. A rank
///          returns what every rank must agree on, so that runs of threads and of processes, of
///          one stage and another can be compared bit for bit. Each sabotage is a line in it.
#pragma once
#include "../dist/stages.hpp"
#include "../train/rig.hpp"
#include "mpt/base/crc32c.hpp"
#include "mpt/dist/global_norm.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/nn/matmul.hpp"
#include "mpt/nn/mlp.hpp"
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
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ladder {

using namespace mpt;

enum class rule { adamw, adam8bit, lamb };

/// What may go wrong in a step, each where it has gone wrong elsewhere.
enum class sabotage {
    none,
    bucket_by_arrival,     // a rank's gradients lie in the order in which they came
    mean_of_means,         // each micro-batch divided by its own tokens
    no_agreement,          // each rank steps if its own gradients are finite
    update_before_unscale, // the step sees S g
    clip_before_unscale,   // the norm of S g against the limit
    double_reduction,      // sums over ranks, added over ranks once more
    norm_of_each_rank,     // squares that all hold, counted on each; or a rank's own alone
    lost_micro_gradient,   // one micro-batch of one rank is left out
    padding_leaked,        // what is behind a unit's end, taken for parameters
    stale_weights          // new weights are not published
};

struct job {
    int stage = 0;
    int micros = 1;
    reduce_mode mode = reduce_mode::once;
    rule optimizer = rule::adamw;
    bool mlp = false;   // instead of a GPT
    bool again = false; // blocks are run again
    float dropout = 0.1f;
    double clip = 0.5; // 0: off
    int steps = 5;
    int overflow = 2; // in this step one rank's gradient has an infinity; -1: in none
    int rows = 2;     // of a micro-batch
    int channels = 12;
    int ahead = 1;
    std::size_t bucket = bucket_bytes;
    sabotage wrong = sabotage::none;
};

/// What all ranks must have alike, and all stages of one reduce mode.
struct outcome {
    std::vector<double> loss, norm; // one a step, of all ranks
    std::vector<float> scale;
    std::vector<std::uint32_t> weights;                 // CRC-32C of each unit, as acquired
    std::vector<std::uint32_t> shards, master, moments; // ... of each shard of each unit
    bool operator==(const outcome&) const = default;
};

/// ... and what a rank alone knows.
struct account {
    strategy_sizes sizes;
    std::size_t padded = 0;                   // elements of all units with padding
    std::size_t peak_in_flight = 0;           // bytes of units that were whole for a while
    std::size_t lasting = 0;                  // bytes of weights, gradients, sums, master, moments
    std::size_t left = 0;                     // bytes of kind comm after the run
    std::vector<std::pair<element, sent>> of; // by type, and by verb:
    std::map<verb, sent> by_verb;
};

template <class X>
std::uint32_t sum_of(const X* data, std::size_t n, std::uint32_t before = 0) {
    return crc32c(std::as_bytes(std::span(data, n)), before);
}

// ---- models: a micro-batch of rows [first, first + rows) of step `step` -------------------------

inline std::uint32_t draw(long step, long row, int t, std::uint32_t what) {
    return philox({{std::uint32_t(step), std::uint32_t(row), std::uint32_t(t), what}}, 5, 6).x[0];
}

template <class T>
class gpt_model {
public:
    static gpt_config config(const job& j) {
        gpt_config c;
        c.layers = 3;
        c.heads = 4;
        c.kv_heads = 2;
        c.channels = j.channels;
        c.context = 6;
        c.vocabulary = 40;
        c.dropout = j.dropout;
        return c;
    }
    gpt_model(thread_pool& pool, memory& mem, const job& j)
        : rows_(j.rows), ops(pool, mem, gpt_scratch<T>(config(j), j.rows, 6)),
          model_(config(j), ops, 11),
          acts_(mem, config(j), j.rows, 6,
                j.again ? checkpointing::every(1, 3) : checkpointing::none(3)),
          in_(std::size_t(j.rows) * 6), out_(in_.size()) {}

    const layout& map() const { return model_.map; }

    /// Fills the micro-batch; how many of its tokens are targets.
    long show(long step, long first) {
        long targets = 0;
        for (int b = 0; b < rows_; ++b)
            for (int t = 0; t < 6; ++t) {
                const std::size_t i = std::size_t(6 * b + t);
                in_[i] = int(draw(step, first + b, t, 0) % 40);
                // rows have unlike many targets, and so have ranks
                const bool target = int(draw(step, first + b, 0, 1) % 6) >= t;
                out_[i] = target ? int(draw(step, first + b, t, 2) % 40) : ignored_target;
                targets += target;
            }
        step_ = step;
        first_ = first;
        return targets;
    }
    double forward(strategy<T>& s, device_span<const T> w, int micro) {
        return model_.forward(s, w, at(micro), acts_);
    }
    void backward(strategy<T>& s, device_span<const T> w, int micro, float seed,
                  gradients<T>& grads) {
        model_.backward(s, w, at(micro), acts_, seed, grads);
    }

private:
    batch at(int micro) const {
        return {rig::view(in_), rig::view(out_), rows_, 6, micro, step_, first_};
    }
    int rows_;

public:
    loops ops;

private:
    gpt<T, loops> model_;
    gpt_acts<T> acts_;
    std::vector<int> in_, out_;
    long step_ = 0, first_ = 0;
};

template <class T>
class mlp_model {
public:
    mlp_model(thread_pool& pool, memory& mem, const job& j)
        : rows_(j.rows), ops(pool, mem, matmul_scratch<T>() * sizeof(wide_t<T>)),
          model_({9, 70, 31, 5}, ops), acts_(mem, model_.widths, j.rows),
          classes_(std::size_t(j.rows)) {}

    const layout& map() const { return model_.map; }

    long show(long step, long first) {
        for (int b = 0; b < rows_; ++b) {
            for (int i = 0; i < 9; ++i)
                acts_.x[0].span().data()[9 * b + i] =
                    narrow<T>(wide_t<T>(uniform01(draw(step, first + b, i, 3)) - 0.5f));
            classes_[std::size_t(b)] = int(draw(step, first + b, 0, 4) % 5);
        }
        return rows_;
    }
    double forward(strategy<T>& s, device_span<const T> w, int) {
        return model_.forward(s, w, rig::view(classes_), acts_);
    }
    void backward(strategy<T>& s, device_span<const T> w, int micro, float seed,
                  gradients<T>& grads) {
        model_.backward(s, w, rig::view(classes_), acts_, seed, grads, micro);
    }

private:
    int rows_;

public:
    loops ops;

private:
    mlp<T, loops> model_;
    mlp_acts<T> acts_;
    std::vector<int> classes_;
};

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
outcome train(communicator& comm, const job& j, account* told = nullptr) {
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
                loss += model.forward(s, r.weights.span(), k);
                float seed = scale.seed(tokens);
                if (j.wrong == sabotage::mean_of_means)
                    seed = S / float(std::max(1L, shown[std::size_t(k)]) * N * j.micros);
                model.backward(s, r.weights.span(), k, seed, r.grads);
            }
            owned_gradients<T> g = s.finish(r.grads); // my part, still scaled
            if (j.wrong == sabotage::double_reduction)
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
            told->padded = r.cut.padded_size();
            told->lasting = lasting;
            told->peak_in_flight = mem.books.peak(kind::comm);
            for (int v = 0; v < verbs; ++v) told->by_verb[verb(v)] = comm.sent.of(verb(v));
            for (int e = 0; e < element_kinds; ++e)
                told->of.push_back({element(e), comm.sent.of(element(e))});
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
outcome train(communicator& comm, const job& j, account* told = nullptr) {
    return j.mlp ? train<T, mlp_model<T>>(comm, j, told) : train<T, gpt_model<T>>(comm, j, told);
}

/// One line that names a job, for a failing test.
inline std::string to_string(const job& j) {
    constexpr const char* rules[] = {"adamw", "adam8bit", "lamb"};
    return join(j.mlp ? "mlp" : "gpt", " zero", j.stage, " reduce ", mpt::to_string(j.mode), ", ",
                j.micros, " micro-batches, ", rules[int(j.optimizer)], j.again ? ", again" : "",
                ", dropout ", j.dropout, ", clip ", j.clip, ", overflow in ", j.overflow,
                ", ahead ", j.ahead);
}

} // namespace ladder
