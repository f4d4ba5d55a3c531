// SPDX-License-Identifier: MIT
#include "mpt/train/device_scale.hpp"

#include "mpt/nn/loops.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

// Operations that count how often the host reads device memory.
struct counting : loops {
    using loops::loops;
    mutable int reads = 0;
    template <class T>
    void copy_to_host(std::span<T> to, device_span<T> from) const {
        ++reads;
        loops::copy_to_host(to, from);
    }
    template <class T>
    std::span<T> on_host(device_span<T> x, std::vector<std::remove_const_t<T>>& room) const {
        ++reads;
        return loops::on_host(x, room);
    }
};

struct machine {
    explicit machine(int threads = 1) : pool(threads), ops(pool, mem, 64) {}
    thread_pool pool;
    memory mem;
    counting ops;
};

// An optimizer whose decision is read where it is taken: plain gradient descent as an operation.
void descend(const cpu&, device_span<float> weights, device_view<float> grads,
             device_view<scale_state> state, float lr) {
    if (state.data()->found_inf != 0) return;
    for (std::size_t i = 0; i < weights.size(); ++i)
        weights.data()[i] -= lr * (grads.data()[i] * state.data()->inverse);
}

loss_scale random_scale(std::mt19937& random) {
    loss_scale s;
    s.value = std::ldexp(1 + float(random() % 1024) / 1024, int(random() % 30));
    if (random() % 8 == 0) s.value = 0x1.8p126f;
    s.growth = 1 + double(1 + random() % 300) / 100;
    s.backoff = double(1 + random() % 99) / 100;
    s.interval = 1 + int(random() % 5);
    s.minimum = random() % 2 ? 0 : s.value / float(1 + random() % 64);
    return s;
}

// Sequences in which the scale on the device had every bit of loss_scale's after every step.
long agreeing(long sequences, const std::function<void(scale_state&)>& change = {}) {
    machine m;
    std::mt19937 random(77);
    buffer<float> grads(m.mem, kind::grads, 5, "gradients");
    const pieces<float> g{{grads.span(), 0}};
    std::vector<float> host(5);
    for (long i = 0; i < sequences; ++i) {
        loss_scale want = random_scale(random);
        device_scale s(m.ops, m.mem, want);
        const unsigned odds = 1 + unsigned(random() % 6);
        for (int step = 0, last = 4 + int(random() % 12); step < last; ++step) {
            for (float& x : host) x = float(random() % 7) - 3;
            const bool overflow = random() % odds == 0;
            if (overflow) host[random() % 5] = random() % 2 ? INFINITY : float(NAN);
            m.ops.copy_to_device(grads.span(), host);
            check_finite(m.ops, s.state(), g);
            update_scale(m.ops, s.state(), s.rule());
            if (change) change(*s.state().data());
            bool stuck = false;
            try {
                want.update(!overflow);
            } catch (const error&) {
                stuck = true;
            }
            if (stuck) {
                if (!says(refusal([&] { s.read(m.ops); }), "at the smallest scale")) return i;
                break;
            }
            const loss_scale now = s.read(m.ops);
            if (now.value != want.value || now.good != want.good || now.skipped != want.skipped)
                return i;
            if (s.state().data()->inverse != float(1 / double(want.value))) return i;
        }
    }
    return sequences;
}

} // namespace

TEST_CASE("in 100000 random sequences the scale on the device is loss_scale, bit for bit") {
    CHECK(agreeing(100000) == 100000);
}
TEST_CASE("sabotage: a device that forgets, or rounds otherwise, is noticed") {
    CHECK(agreeing(1000, [](scale_state& s) { s.found_inf = 1; }) < 100);
    CHECK(agreeing(1000, [](scale_state& s) { s.growth_tracker = 0; }) < 100);
    CHECK(agreeing(1000, [](scale_state& s) { s.scale = std::nextafter(s.scale, 0.0f); }) < 100);
    CHECK(agreeing(1000, [](scale_state& s) { s.inverse = 1 / std::nextafter(s.scale, 0.0f); }) <
          100);
}

TEST_CASE("whole steps run through device spans: the host reads nothing until it asks") {
    machine m(2);
    const std::size_t n = 1003;
    loss_scale host;
    host.value = 1024;
    host.interval = 3;
    device_scale s(m.ops, m.mem, host);
    buffer<float> weights(m.mem, kind::weights, n, "weights");
    buffer<float> grads(m.mem, kind::grads, n, "gradients");
    buffer<float> seed(m.mem, kind::temp, 1, "seed");
    CHECK(s.state().bytes() == 24);
    std::vector<float> w(n), g(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = rig::number(1, i);
    m.ops.copy_to_device(weights.span(), w);
    const std::vector<int> found{0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0}; // GradScaler's trace
    const auto run = [&] {
        for (std::size_t step = 0; step < found.size(); ++step) {
            scale_seed(m.ops, seed.span(), s.state(), 512);
            for (std::size_t i = 0; i < n; ++i) g[i] = 64 * rig::number(2 + std::uint32_t(step), i);
            if (found[step]) g[step * 7] = INFINITY;
            m.ops.copy_to_device(grads.span(), g); // backward
            check_finite(m.ops, s.state(), pieces<float>{{grads.span(), 0}});
            descend(m.ops, weights.span(), grads.span(), s.state(), 0.1f);
            update_scale(m.ops, s.state(), s.rule());
        }
    };
    run();
    CHECK(m.ops.reads == 0);
    const loss_scale after = s.read(m.ops);
    CHECK(m.ops.reads == 1);
    CHECK(after.value == 512);
    CHECK(after.good == 1);
    CHECK(after.skipped == 3);

    // the same on the host
    float S = 1024;
    loss_scale scale = host;
    for (std::size_t step = 0; step < found.size(); ++step, S = scale.value) {
        if (!scale.update(!found[step])) continue;
        for (std::size_t i = 0; i < n; ++i) {
            const float gradient = 64 * rig::number(2 + std::uint32_t(step), i);
            w[i] -= 0.1f * (gradient * inverse_scale(S));
        }
    }
    std::vector<float> room;
    const auto there = m.ops.on_host(weights.span(), room);
    CHECK(rig::same_bits(w, std::vector<float>(there.begin(), there.end())));
    CHECK(scale.value == after.value);
}

TEST_CASE("seed and unscaled gradients read the scale where it is") {
    machine m(2);
    loss_scale host;
    host.value = 49152; // no power of two: the inverse is rounded
    device_scale s(m.ops, m.mem, host);
    buffer<float> seed(m.mem, kind::temp, 1, "seed"), wide(m.mem, kind::temp, 5, "unscaled");
    buffer<fp16> grads(m.mem, kind::grads, 5, "gradients");
    const std::vector<fp16> g{fp16(1.0f), fp16(-3.0f), fp16(6e-8f), fp16(65504.0f), fp16(0.0f)};
    m.ops.copy_to_device(grads.span(), g);
    scale_seed(m.ops, seed.span(), s.state(), 1000);
    unscale<fp16>(m.ops, wide.span(), s.state(), grads.span());
    CHECK(*seed.span().data() == host.seed(1000));
    scale_seed(m.ops, seed.span(), s.state(), (1 << 24) + 1); // fp32 has no such number
    CHECK(*seed.span().data() == host.seed((1 << 24) + 1));
    CHECK(*seed.span().data() < 49152.0f / (1 << 24));
    for (std::size_t i = 0; i < 5; ++i)
        CHECK(wide.span().data()[i] == float(g[i]) * float(1 / 49152.0));
    CHECK(wide.span().data()[2] > 0); // in fp16 it would be gone
    CHECK(says(refusal([&] { scale_seed(m.ops, seed.span(), s.state(), 0); }),
               "a window with 0 target tokens has no mean loss"));
    const auto four = wide.span().first(4);
    CHECK(says(refusal([&] { unscale<fp16>(m.ops, four, s.state(), grads.span()); }),
               "5 gradients for a place of 4"));
}

TEST_CASE("checks add up until the update; an overflow at the minimum is told on reading") {
    machine m;
    loss_scale host;
    host.value = 2;
    device_scale s(m.ops, m.mem, host);
    std::vector<float> fine{1, 2}, broken{1, INFINITY};
    const pieces<float> a{{rig::span(broken), 0}}, b{{rig::span(fine), 0}};
    check_finite(m.ops, s.state(), a);
    check_finite(m.ops, s.state(), b); // does not forgive the first
    update_scale(m.ops, s.state(), s.rule());
    CHECK(s.read(m.ops).value == 1);
    check_finite(m.ops, s.state(), b); // the update has cleared it
    update_scale(m.ops, s.state(), s.rule());
    CHECK(s.read(m.ops).good == 1);
    for (int i = 0; i < 3; ++i) {
        check_finite(m.ops, s.state(), a);
        update_scale(m.ops, s.state(), s.rule());
    }
    CHECK(says(refusal([&] { s.read(m.ops); }),
               "gradients not finite at the smallest scale 1, 3 times; the scale is not the "
               "cause"));
    CHECK(says(refusal([&] { device_scale(m.ops, m.mem, loss_scale::fixed(8)); }), "fixed at 8"));
    host.value = 0;
    CHECK(says(refusal([&] { device_scale(m.ops, m.mem, host); }), "0 cannot scale anything"));
}

TEST_CASE("what was read goes on as if it had stayed, on the device or on the host") {
    machine m;
    loss_scale host;
    host.value = 4096;
    host.interval = 4;
    host.skipped = 5;
    host.skipped_in_a_row = 2;
    device_scale s(m.ops, m.mem, host);
    for (int i = 0; i < 3; ++i) update_scale(m.ops, s.state(), s.rule());
    loss_scale back;
    back.restore(s.read(m.ops).state()); // through a checkpoint
    CHECK(back.skipped_in_a_row == 0);   // three steps were finite since
    device_scale again(m.ops, m.mem, back);
    update_scale(m.ops, again.state(), again.rule());
    CHECK(again.read(m.ops).value == 8192);
    back.update(true);
    CHECK(back.value == 8192);
    CHECK(again.read(m.ops).skipped == 5); // over the whole run
}
