// SPDX-License-Identifier: MIT
// None = host = file for every stage of ZeRO: states of a rank's shard, wherever they lie.
#include <doctest/doctest.h>

#include "mpt/comm/world.hpp"
#include "mpt/dist/ddp.hpp"
#include "mpt/dist/strategy_sizes.hpp"
#include "mpt/dist/zero1.hpp"
#include "mpt/dist/zero2.hpp"
#include "mpt/dist/zero3.hpp"
#include "mpt/train/adamw.hpp"
#include "offload_rig.hpp"

#include <memory>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

enum class where { none, host, file };
constexpr int steps = 2;

template <class T, class On>
std::unique_ptr<strategy<T>> make(int stage, const On& on, const layout& map, communicator& comm,
                                  memory& mem, int micros, reduce_mode mode) {
    if (stage == 0) return std::make_unique<ddp<T, On>>(on, map, comm, micros, mode, 5000);
    if (stage == 1) return std::make_unique<zero1<T, On>>(on, map, comm, micros, mode);
    if (stage == 2) return std::make_unique<zero2<T, On>>(on, map, comm, mem, micros, mode);
    return std::make_unique<zero3<T, On>>(on, map, comm, mem, micros, mode);
}

// What rank comm.rank() owns after some steps.
template <class T>
rig::outcome<T> trained(communicator& comm, int stage, int micros, reduce_mode mode, where to,
                        const std::string& folder) {
    const layout map = rig::edges();
    rig::machine m(1);
    transfers copies;
    const host_sums<T> away(m.mem, copies, 700); // no multiple of anything
    // Shards that are added up go each micro-batch; the rest at the window's end.
    const bool adds_up = micros > 1 && mode == reduce_mode::every;
    const bool leaving = to != where::none && adds_up;
    const partition cut(map, comm.size());
    const strategy_sizes n = sizes_of(stage, map, cut, comm.rank(), micros, mode);
    const auto s = leaving ? make<T>(stage, away, map, comm, m.mem, micros, mode)
                           : make<T>(stage, m.on, map, comm, m.mem, micros, mode);
    buffer<T> weights(m.mem, kind::weights, n.weights, "weights"),
        micro(m.mem, kind::grads, n.micro, "gradients");
    buffer<float> sum(m.mem, kind::sums, n.sum, "sums", leaving ? place::host : place::device);
    gradients<T> grads{micro.span(), sum.span()};
    const pieces<T> mine = s->mine(weights.span());
    const auto first = rig::first_weights<T>(map);
    for (const piece<T>& p : mine)
        std::copy_n(first.data() + p.begin, p.data.size(), p.data.data());

    rig::outcome<T> r;
    for (auto* x : {&r.master, &r.m, &r.v}) x->resize(n.owned);
    adamw rule{.weight_decay = 0.1};
    const auto window = [&](int step) {
        for (int k = 0; k < micros; ++k) rig::backward(*s, map, grads, step, k, comm.rank());
        return s->finish(grads);
    };
    if (to == where::none) {
        const auto packed = own_master<T> ? device_span<wide_t<T>>() : rig::span(r.master);
        const optimizer_state<T> own{
            master_of<T>(packed, mine), rig::span(r.m), rig::span(r.v), mine, {}};
        cast(m.on, mine, own.master);
        for (int step = 0; step < steps; ++step) {
            rule.step(m.on, map, own, window(step), rig::factor_of(step), rig::rate_of(step));
            s->publish(weights.span());
        }
    } else {
        std::unique_ptr<state_store<T>> store;
        if (to == where::host)
            store = std::make_unique<host_states<T>>(m.mem, mine, 2, 1024);
        else
            store = std::make_unique<file_states<T>>(
                m.mem, map, mine, 2,
                file_settings{.folder = folder, .rank = comm.rank(), .part = 1024, .buffers = 2});
        offload<T> o(m.mem, mine, *store, copies);
        o.begin(rig::first_master(first));
        std::vector<T> host_micro(adds_up || micros > 1 ? 0 : n.owned);
        std::vector<float> host_sum(!adds_up && micros > 1 ? n.owned : 0);
        for (int step = 0; step < steps; ++step) {
            const auto g = window(step);
            o.step(rule, m.on, map,
                   leaving ? g : leave(copies, g, rig::span(host_micro), rig::span(host_sum)),
                   rig::factor_of(step), rig::rate_of(step));
            s->publish(weights.span());
        }
        o.copy_to({r.master, r.m, r.v});
        const std::size_t a_window = adds_up      ? std::size_t(micros) * sizeof(T)
                                     : micros > 1 ? 4
                                                  : sizeof(T);
        // ddp adds whole buckets, the others padded shards: at least what is owned
        const std::size_t out = steps * a_window * n.owned;
        CHECK((stage > 0 && leaving ? copies.bytes_out() >= out : copies.bytes_out() == out));
        CHECK(copies.bytes_in() == steps * n.owned * sizeof(T));
    }
    for (const piece<T>& p : s->mine(weights.span()))
        r.weights.insert(r.weights.end(), p.data.data(), p.data.data() + p.data.size());
    if constexpr (own_master<T>) r.master = r.weights;
    return r;
}

template <class T>
void same_everywhere(int ranks, int micros, reduce_mode mode) {
    const rig::folder files;
    for (int stage = 0; stage <= 3; ++stage)
        run_ranks(ranks, [&](communicator& comm) {
            CAPTURE(stage);
            const auto want = trained<T>(comm, stage, micros, mode, where::none, files.path);
            CHECK(trained<T>(comm, stage, micros, mode, where::host, files.path) == want);
            CHECK(trained<T>(comm, stage, micros, mode, where::file, files.path) == want);
        });
}

} // namespace

TEST_CASE("stages 0 to 3, 1 to 4 ranks, windows of 1 to 4, both ways to reduce: the same bits") {
    for (const int ranks : {1, 2, 3, 4})
        for (const int micros : {1, 2, 3, 4})
            for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every})
                same_everywhere<bf16>(ranks, micros, mode);
}

TEST_CASE_TEMPLATE("... and in other formats", T, float, fp16) {
    for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every})
        same_everywhere<T>(3, 2, mode);
}

TEST_CASE("one rank's file that is damaged ends the run on all ranks, and is named") {
    const rig::folder files;
    const std::string said = refusal([&] {
        run_ranks(3, [&](communicator& comm) {
            const layout map = rig::edges();
            rig::machine m(1);
            transfers copies;
            zero1<bf16> s(m.on, map, comm, 1);
            const partition cut(map, comm.size());
            buffer<bf16> weights(m.mem, kind::weights, cut.padded_size(), "weights"),
                micro(m.mem, kind::grads, cut.padded_size(), "gradients");
            gradients<bf16> grads{micro.span(), {}};
            const pieces<bf16> mine = s.mine(weights.span());
            file_states<bf16> store(
                m.mem, map, mine, 2,
                {.folder = files.path, .rank = comm.rank(), .part = 256, .buffers = 1});
            offload<bf16> o(m.mem, mine, store, copies);
            o.begin(rig::first_master(rig::first_weights<bf16>(map)));
            if (comm.rank() == 1)
                std::filesystem::resize_file(files.path + "/rank1-piece1.states", 1);
            adamw rule;
            for (int step = 0; step < 2; ++step) {
                rig::backward(s, map, grads, step, 0, comm.rank());
                std::vector<bf16> there(cut.owned(comm.rank()));
                const auto g = leave(copies, s.finish(grads), rig::span(there), {});
                o.step(rule, m.on, map, g, 1.0, 1e-3);
                s.publish(weights.span());
            }
        });
    });
    CHECK(says(said, "rank 1"));
    CHECK(says(said, "rank1-piece1.states: ends at byte 1, "));
    CHECK(says(said, "(states of "));
}
