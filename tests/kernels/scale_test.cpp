// SPDX-License-Identifier: MIT
#include "mpt/kernels/scale.cuh"
#include "mpt/train/adam_moments.hpp"
#include "mpt/train/clip.hpp"
#include "mpt/train/loss_scale.hpp"
#include "mpt/train/schedule.hpp"
#include "mpt/train/warmup.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>

using namespace rig;

namespace {

// One struct in device memory.
template <class S>
struct one {
    one() : room(sizeof(S)) {}
    explicit one(const S& s) : one() { write(s); }
    void write(const S& s) {
        std::vector<unsigned char> bytes(sizeof(S));
        std::memcpy(bytes.data(), &s, sizeof(S));
        room.write(bytes);
    }
    S read() const {
        S s;
        std::memcpy(&s, room.read().data(), sizeof(S));
        return s;
    }
    S* at() const { return reinterpret_cast<S*>(room.data()); }
    array<unsigned char> room;
};

// fp64's log, cos, pow and sqrt of two libraries differ in their last place or two; rounded to
// float they agree, or are neighbours.
bool close(float a, float b) { return std::fabs(a - b) <= 0x1.1p-23f * std::fabs(b); }
bool close(double a, double b) { return std::fabs(a - b) <= 0x1p-49 * std::fabs(b); }

struct parity_rule { // the same rule on both sides
    rate_rule device;
    std::function<double(long)> host;
};
parity_rule cosine(mpt::schedule s) {
    return {{rate_rule::cosine, s.lr, s.min_lr, s.warmup, s.decay}, s};
}
parity_rule warm(mpt::warmup_lr w) {
    return {{w.type == mpt::warmup_lr::rise::linear ? rate_rule::linear : rate_rule::logarithmic,
             w.max_lr, w.min_lr, w.steps, 0},
            w};
}

step_state start_at(const mpt::loss_scale& s, long attempted, long applied) {
    step_state now{};
    now.scale = s.value, now.inverse = mpt::inverse_scale(s.value), now.growth_tracker = s.good;
    now.attempted = attempted, now.applied = applied;
    return now;
}

} // namespace

TEST_CASE("the card's bytes") { CHECK(sizeof(step_state) == 168); }

TEST_CASE("a run of 400 steps: each number is the host's") {
    using mpt::schedule;
    const parity_rule rules[] = {
        cosine({6e-4, 6e-5, 20, 300}), cosine({1e-3, 0, 0, 0}),   cosine({1e-3, 1e-4, 30, 30}),
        cosine({1e-3, 1e-4, 0, 150}),  warm({1e-5, 1e-3, 50, mpt::warmup_lr::rise::linear}),
        warm({0, 2e-3, 7, mpt::warmup_lr::rise::logarithmic}),
        {{rate_rule::constant, 3e-4, 0, 0, 0}, schedule::constant(3e-4)}};
    std::uint32_t random = 1;
    const auto next = [&] { return (random = random * 1664525u + 1013904223u) >> 8; };
    for (const parity_rule& rate : rules) {
        mpt::loss_scale host;
        host.interval = 6;
        host.minimum = 1;
        host.value = 64;
        struct adam {
            double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
        } numbers;
        step_rules how;
        how.rate = rate.device;
        how.scale = {true, host.growth, host.backoff, host.interval, host.minimum};
        how.beta1 = numbers.beta1, how.beta2 = numbers.beta2, how.eps = numbers.eps;
        how.weight_decay = 0.1, how.max_norm = next() % 2 ? 1.0 : 0.0, how.tokens = 96;
        const one<step_state> state(start_at(host, 0, 0));
        one<inspect_result> found;
        array<double> losses(std::vector<double>{1.5, 2.25, 3.125});
        long applied = 0;
        int skipped = 0;
        for (long step = 0; step < 400; ++step) {
            const float S = host.value;
            begin_step(state.at(), how, stream());
            // two pieces; now and then one has something that is not finite
            const bool overflow = host.value > 2 && next() % 5 == 0;
            const inspect_result a{double(next()) * 1e-5, 0, 0}, b{0.5, overflow ? 2u : 0u, 40};
            found.write(a);
            add_found(state.at(), found.at(), 0, stream());
            found.write(b);
            add_found(state.at(), found.at(), 1000, stream());
            decide(state.at(), how, stream());
            const step_state s = state.read();
            REQUIRE(s.seed == host.seed(96));
            REQUIRE(s.place.step == step);
            REQUIRE(s.found_inf == (overflow ? 1 : 0));
            const double norm = std::sqrt(a.squares + b.squares) / S;
            const double lr = rate.host(applied);
            const auto expected = mpt::numbers_of<float>(
                numbers, mpt::clip_factor(norm, how.max_norm) / S, lr, applied + 1);
            REQUIRE(close(s.numbers.factor, expected.factor));
            REQUIRE(s.numbers.keep1 == expected.keep1);
            REQUIRE(s.numbers.keep2 == expected.keep2);
            REQUIRE(close(s.numbers.rate, expected.rate));
            REQUIRE(close(s.numbers.correction, expected.correction));
            REQUIRE(s.numbers.eps == expected.eps);
            REQUIRE(close(s.numbers.decay, float(lr * 0.1)));
            REQUIRE(s.numbers.t == std::uint32_t(applied + 1));
            end_step(state.at(), how, losses, 3, stream());
            host.update(!overflow);
            if (overflow)
                ++skipped;
            else
                ++applied;
            const step_state after = state.read();
            REQUIRE(after.scale == host.value);
            REQUIRE(after.inverse == mpt::inverse_scale(host.value));
            REQUIRE(after.growth_tracker == host.good);
            REQUIRE(after.skipped == host.skipped);
            REQUIRE(after.applied == applied);
            REQUIRE(after.attempted == step + 1);
            REQUIRE(after.row.loss == 6.875 / 96);
            REQUIRE(close(after.row.norm, norm));
            REQUIRE(close(after.row.rate, lr));
            REQUIRE(after.row.scale == S);
            REQUIRE(after.row.applied == !overflow);
            REQUIRE(after.row.bad == (overflow ? 2 : 0));
            if (overflow) REQUIRE(after.row.first_bad == 1040);
        }
        CHECK(skipped > 20);
        CHECK(applied > 300);
    }
}

TEST_CASE("a fixed scale never moves; at the minimum an overflow is counted; fp32 is not passed") {
    const auto after = [](mpt::loss_scale from, bool overflow) {
        step_rules how;
        how.scale = {from.dynamic, from.growth, from.backoff, from.interval, from.minimum};
        const one<step_state> state(start_at(from, 0, 0));
        const one<inspect_result> found(inspect_result{1, overflow ? 1u : 0u, 0});
        array<double> losses(std::vector<double>{1.0});
        begin_step(state.at(), how, stream());
        add_found(state.at(), found.at(), 0, stream());
        decide(state.at(), how, stream());
        end_step(state.at(), how, losses, 1, stream());
        return state.read();
    };
    CHECK(after(mpt::loss_scale::fixed(8), true).scale == 8);
    CHECK(after(mpt::loss_scale::fixed(8), true).skipped == 1);
    mpt::loss_scale low;
    low.value = 1;
    CHECK(after(low, true).scale == 1);
    CHECK(after(low, true).stuck == 1);
    CHECK(after(low, false).stuck == 0);
    mpt::loss_scale high;
    high.value = 0x1p127f, high.interval = 1;
    CHECK(after(high, false).scale == 0x1p127f);
    CHECK(after(high, false).growth_tracker == 0);
}
