// SPDX-License-Identifier: MIT
#include "mpt/dist/leaving_rank.hpp"

#include <doctest/doctest.h>

#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/nn/model_size.hpp"
#include "mpt/train/estimate.hpp"
#include "offload_rig.hpp"

#include <future>
#include <memory>
#include <mutex>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

gpt_config small() {
    gpt_config c;
    c.layers = 3;
    c.heads = 2;
    c.kv_heads = 2;
    c.channels = 12;
    c.context = 6;
    c.vocabulary = 11;
    return c;
}

// The gradients of a window, by a model with a tied head, through either strategy.
template <class T>
struct window {
    explicit window(bool leaves, int micros, transfer_calls calls = {})
        : pool(2), ops(pool, mem, gpt_scratch<T>(small(), 2, 6)), model(small(), ops, 7),
          acts(mem, small(), 2, 6), copies(calls), weights(rig::numbers<T>(1, model.map.size(), 1)),
          micro(model.map.size()), sum(micros > 1 ? model.map.size() : 0, NAN) {
        std::unique_ptr<strategy<T>> s;
        if (leaves)
            s = std::make_unique<leaving_rank<T, loops>>(ops, model.map, mem, copies);
        else
            s = std::make_unique<one_rank<T, loops>>(ops, model.map);
        gradients<T> grads{rig::span(micro), rig::span(sum)};
        for (int k = 0; k < micros; ++k) {
            const std::vector<int> in{0, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, k},
                out{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, k, 8};
            const batch b{rig::view(in), rig::view(out), 2, 6, k, 5, 2 * k};
            model.forward(*s, rig::view(weights), b, acts);
            model.backward(*s, rig::view(weights), b, acts, 0.25f, grads);
        }
        const owned_gradients<T> own = s->finish(grads);
        CHECK(own.sum.size() == (micros > 1 ? model.map.units.size() : 0));
        CHECK(own.micro.size() == (micros > 1 ? 0 : model.map.units.size()));
    }
    bool same(const window& o) const {
        return sum.empty() ? rig::same_bits(micro, o.micro) : rig::same_bits(sum, o.sum);
    }

    thread_pool pool;
    memory mem;
    loops ops;
    gpt<T, loops> model;
    gpt_acts<T> acts;
    transfers copies;
    std::vector<T> weights, micro;
    std::vector<float> sum;
};

} // namespace

TEST_CASE_TEMPLATE("a model's gradients arrive on the host with the bits of one_rank", T, float,
                   fp16, bf16) {
    for (const int micros : {1, 2, 3}) {
        const window<T> here(false, micros), away(true, micros);
        CHECK(away.same(here));
        CHECK(away.copies.bytes_out() == std::size_t(micros) * here.model.map.size() * sizeof(T));
        CHECK(here.copies.bytes_out() == 0);

        // On the device: what the estimate says, where one unit travels while another is made.
        const model_size size =
            size_of_gpt(small(), checkpointing::parse("none", small().layers), 2, 6, sizeof(T));
        const estimate e = estimate_bytes(size, {.weight = sizeof(T),
                                                 .master = sizeof(T) < 4,
                                                 .micro_batches = micros,
                                                 .reduce = reduce_when::every,
                                                 .offload = offload_to::host,
                                                 .ahead = true});
        CHECK(away.mem.books.peak(kind::comm) == e.at(kind::comm));
        CHECK(away.mem.books.peak(kind::grads) == e.at(kind::grads)); // none
    }
}

TEST_CASE("a unit waits until what lies in its place has left, and no longer") {
    const layout map = rig::edges();
    rig::machine m(1);
    // The transfer of each unit is let go by hand.
    std::mutex lock;
    std::promise<void> gates[4];
    std::shared_future<void> open[4];
    for (int i = 0; i < 4; ++i) open[i] = gates[i].get_future().share();
    int copies_made = 0;
    transfer_calls calls;
    calls.out = [&](void* to, const void* from, std::size_t n) {
        int turn;
        {
            const std::lock_guard hold(lock);
            turn = copies_made++;
        }
        open[turn].wait();
        std::memcpy(to, from, n);
    };
    transfers copies(calls);
    leaving_rank<fp16> s(m.on, map, m.mem, copies);
    std::vector<fp16> micro(map.size());
    gradients<fp16> grads{rig::span(micro), {}};
    const auto make = [&](int unit) {
        const device_span<fp16> to = s.collect(grads, unit);
        std::fill_n(to.data(), to.size(), fp16(float(unit + 1)));
        s.ready(grads, unit, 0);
    };
    make(3);
    make(2); // another place: nobody has to wait for unit 3
    auto third = std::async(std::launch::async, [&] { s.collect(grads, 1); }); // unit 3's place
    CHECK(third.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
    gates[0].set_value();
    third.get(); // unit 3 has left; unit 2 has not
    std::fill_n(s.collect(grads, 1).data(), map.units[1].size(), fp16(2.0f));
    s.ready(grads, 1, 0);
    for (int i = 1; i < 4; ++i) gates[i].set_value();
    make(0);
    s.finish(grads);
    for (int u = 0; u < 4; ++u)
        for (std::size_t i = map.units[std::size_t(u)].begin; i < map.units[std::size_t(u)].end;
             ++i)
            REQUIRE(widen(micro[i]) == float(u + 1));
}

TEST_CASE("sabotage: a copy that comes after somebody waited for it tears gradients" *
          doctest::skip(rig::watched)) {
    struct copy {
        void* to = nullptr;
        const void* from = nullptr;
        std::size_t bytes = 0;
    };
    const auto before = std::make_shared<copy>();
    transfer_calls late;
    late.out = [before](void* to, const void* from, std::size_t n) {
        if (before->bytes) std::memcpy(before->to, before->from, before->bytes);
        *before = {to, from, n};
    };
    const window<fp16> here(false, 2), torn(true, 2, late);
    CHECK(!torn.same(here));
}

TEST_CASE("units out of order are refused") {
    const layout map = rig::edges();
    rig::machine m(1);
    transfers copies;
    leaving_rank<fp16> s(m.on, map, m.mem, copies);
    std::vector<fp16> micro(map.size());
    gradients<fp16> grads{rig::span(micro), {}};
    s.collect(grads, 3);
    CHECK(says(refusal([&] { s.collect(grads, 1); }), "unit 1 begins before unit 3 is ready"));
    CHECK(says(refusal([&] { s.ready(grads, 2, 0); }), "unit 2 is ready that was not collected"));
    CHECK(s.collect(grads, 3).size() == map.units[3].size()); // twice is no harm
}

TEST_CASE("a copy that fails ends the window") {
    const layout map = rig::edges();
    rig::machine m(1);
    transfer_calls calls;
    calls.out = [](void*, const void*, std::size_t) { throw error("no device any more"); };
    transfers copies(calls);
    leaving_rank<fp16> s(m.on, map, m.mem, copies);
    std::vector<fp16> micro(map.size());
    gradients<fp16> grads{rig::span(micro), {}};
    s.collect(grads, 3);
    s.ready(grads, 3, 0);
    CHECK(refusal([&] { s.finish(grads); }) == "no device any more");
}
