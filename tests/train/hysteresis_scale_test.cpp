// SPDX-License-Identifier: MIT
#include "mpt/train/hysteresis_scale.hpp"

#include "mpt/train/inspect.hpp"
#include "mpt/train/loss_scale.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

struct entry { // after a step
    int overflow;
    float scale;
    int hysteresis;
};

hysteresis_scale start(float value, int window, int hysteresis, bool consecutive) {
    hysteresis_scale s;
    s.value = value;
    s.window = window;
    s.hysteresis = hysteresis;
    s.consecutive_hysteresis = consecutive;
    return s;
}

// Traces of DeepSpeed's DynamicLossScaler, run beside a second implementation.
const std::vector<entry> with_two{
    {1, 65536, 1}, {1, 32768, 1}, {1, 16384, 1}, {0, 16384, 1}, {0, 16384, 1}, {0, 16384, 1},
    {0, 16384, 1}, {0, 32768, 2}, {1, 32768, 1}, {1, 16384, 1}, {0, 16384, 1}, {1, 8192, 1},
    {0, 8192, 1},  {0, 8192, 1},  {0, 8192, 1},  {0, 8192, 1},  {0, 16384, 2}, {0, 16384, 2},
    {0, 16384, 2}, {0, 16384, 2}, {0, 32768, 2}};
const std::vector<entry> consecutive{
    {1, 65536, 1}, {0, 65536, 2}, {1, 65536, 1}, {0, 65536, 2}, {1, 65536, 1}, {1, 32768, 1},
    {1, 16384, 1}, {0, 16384, 2}, {0, 16384, 2}, {0, 16384, 2}, {0, 16384, 2}, {0, 32768, 2},
    {1, 32768, 1}, {0, 32768, 2}, {0, 32768, 2}, {0, 32768, 2}, {0, 32768, 2}, {0, 65536, 2}};
const std::vector<entry> with_one{{1, 128, 1}, {1, 64, 1},  {0, 64, 1},  {0, 64, 1}, {0, 128, 1},
                                  {0, 128, 1}, {0, 256, 1}, {1, 128, 1}, {0, 128, 1}};

// Does s go through `want`? `between` may change it before each step.
bool follows(hysteresis_scale s, const std::vector<entry>& want,
             const std::function<void(hysteresis_scale&)>& between = {}) {
    for (const entry& e : want) {
        if (between) between(s);
        if (s.update(!e.overflow) == bool(e.overflow)) return false;
        if (s.value != e.scale || s.left() != e.hysteresis) return false;
    }
    return true;
}

// The same machine as a question to the recorded history: nothing is carried along but what
// happened. Every scale is a power of two here, so a scale is an exponent.
struct history {
    int start, window, hysteresis, minimum; // start and minimum: exponents
    bool consecutive;
    std::vector<char> overflowed{};
    std::vector<int> exponents{}; // after each step

    // Of the clean steps since the latest overflow (or the beginning), does the newest double S?
    bool doubles(std::size_t step) const {
        const auto newest = overflowed.begin() + std::ptrdiff_t(step) + 1;
        const auto run = std::find(std::make_reverse_iterator(newest), overflowed.rend(), 1);
        const auto clean = std::distance(std::make_reverse_iterator(newest), run);
        return clean > 1 && (clean - 1) % window == 0;
    }
    // Overflows, up to and with this step, that no refill has forgiven.
    int unforgiven(std::size_t step) const {
        int n = 0;
        for (std::size_t i = step + 1; i-- > 0;) {
            if (overflowed[i])
                ++n;
            else if (consecutive || doubles(i))
                break;
        }
        return n;
    }
    // True where the run ends: an overflow at the minimum.
    bool add(bool overflow) {
        const std::size_t step = overflowed.size();
        const int before = step == 0 ? start : exponents.back();
        overflowed.push_back(overflow);
        const bool lowers = overflow && unforgiven(step) >= hysteresis;
        if (lowers && before == minimum) return true;
        const int wanted = before - (lowers ? 1 : 0) + (!overflow && doubles(step) ? 1 : 0);
        exponents.push_back(std::min(wanted, 127));
        return false;
    }
    int left() const {
        return std::max(1, hysteresis - unforgiven(overflowed.size() - 1));
    }
};

// Random machines and overflows until something differs; returns how many sequences agreed.
// change(s): what a sabotage does after every update.
long agreeing(long sequences, const std::function<void(hysteresis_scale&)>& change = {}) {
    std::mt19937 random(2024);
    long steps = 0, overflows = 0, ends = 0, caps = 0;
    for (long i = 0; i < sequences; ++i) {
        const int H = 1 + int(random() % 4), window = 1 + int(random() % 6);
        const int minimum = int(random() % 8), begin = random() % 8 == 0
                                                           ? 120 + int(random() % 8)
                                                           : minimum + int(random() % 10);
        const bool refill = random() % 2;
        hysteresis_scale s = start(std::ldexp(1.0f, begin), window, H, refill);
        s.minimum = std::ldexp(1.0f, minimum);
        s.validate();
        history other{begin, window, H, minimum, refill};
        const unsigned odds = 1 + unsigned(random() % 8); // an overflow in 1 to 8 steps
        const bool saved = i % 200 == 0;                  // ... and restored at every step
        for (int step = 0, last = 6 + int(random() % 18); step < last; ++step) {
            if (saved) {
                hysteresis_scale fresh;
                fresh.restore(s.state());
                s = fresh;
            }
            const bool overflow = random() % odds == 0;
            bool ended = false;
            try {
                if (s.update(!overflow) == overflow) return i;
            } catch (const error&) {
                ended = true;
            }
            if (change) change(s);
            if (other.add(overflow) != ended) return i;
            ++steps;
            overflows += overflow;
            if (ended) {
                ++ends;
                break;
            }
            caps += s.value == 0x1p127f;
            if (s.value != std::ldexp(1.0f, other.exponents.back()) || s.left() != other.left())
                return i;
        }
    }
    if (!change) { // the sequences met everything that there is
        CHECK(steps > 8 * sequences);
        CHECK(overflows > steps / 10);
        CHECK(ends > sequences / 100);
        CHECK(caps > sequences / 100);
    }
    return sequences;
}

} // namespace

TEST_CASE("scale and hysteresis follow DeepSpeed's traces") {
    CHECK(follows(start(65536, 4, 2, false), with_two));
    CHECK(follows(start(65536, 4, 2, true), consecutive));
    CHECK(follows(start(256, 2, 1, false), with_one));
}

TEST_CASE("sabotage: another window, hysteresis or refill leaves the trace") {
    CHECK(!follows(start(65536, 5, 2, false), with_two));
    CHECK(!follows(start(65536, 4, 1, false), with_two));
    CHECK(!follows(start(65536, 4, 2, true), with_two));
    CHECK(!follows(start(65536, 4, 2, false), consecutive));
    // GradScaler's counting, by which the first growth comes a step earlier
    loss_scale other;
    other.interval = 4;
    for (int i = 0; i < 4; ++i) other.update(true);
    hysteresis_scale s = start(65536, 4, 2, false);
    for (int i = 0; i < 4; ++i) s.update(true);
    CHECK(other.value == 131072);
    CHECK(s.value == 65536);
    s.update(true);
    CHECK(s.value == 131072);
}

TEST_CASE("a lone overflow leaves S, but spends the hysteresis until S grows") {
    hysteresis_scale s = start(65536, 12, 2, false); // as the picture of chapter 5 has it
    loss_scale other;
    other.interval = 12;
    std::vector<float> seen, seen_other; // after the steps with an overflow
    for (int step = 0; step < 60; ++step) {
        const bool overflow = step == 5 || (step >= 16 && step <= 18) || step == 48;
        s.update(!overflow);
        other.update(!overflow);
        if (overflow) seen.push_back(s.value), seen_other.push_back(other.value);
    }
    CHECK(seen == std::vector<float>{65536, 32768, 16384, 8192, 32768});
    CHECK(seen_other == std::vector<float>{32768, 16384, 8192, 4096, 8192});
}

TEST_CASE("a million random overflow sequences agree with a model that reads their history") {
    CHECK(agreeing(1000000) == 1000000);
}
TEST_CASE("sabotage: the same sequences notice a machine that is slightly wrong") {
    using machine = hysteresis_scale;
    CHECK(agreeing(1000, [](machine& s) { s.spent = 0; }) < 100);
    CHECK(agreeing(1000, [](machine& s) { if (s.last_overflow > 3) s.last_overflow = 3; }) < 100);
    CHECK(agreeing(1000, [](machine& s) { s.value = std::min(s.value, 0x1p126f); }) < 1000);
    CHECK(agreeing(1000, [](machine& s) { ++s.iteration; }) < 100);
}

TEST_CASE("saved and resumed at every step, the traces are the uninterrupted ones") {
    const auto resume = [](hysteresis_scale& s) {
        hysteresis_scale fresh;
        fresh.restore(s.state());
        s = fresh;
    };
    CHECK(follows(start(65536, 4, 2, false), with_two, resume));
    CHECK(follows(start(65536, 4, 2, true), consecutive, resume));
}
TEST_CASE("sabotage: a resume that loses one entry of the state is noticed") {
    for (const char* lost : {"cur_scale", "cur_iter", "last_overflow_iter", "scale_window",
                             "cur_hysteresis"})
        CHECK_MESSAGE(!follows(start(65536, 4, 2, false), with_two,
                               [lost](hysteresis_scale& s) {
                                   auto saved = s.state();
                                   saved[lost] = hysteresis_scale{}.state()[lost];
                                   if (saved["cur_iter"] == "0") saved["last_overflow_iter"] = "-1";
                                   s.restore(saved);
                               }),
                      lost);
}

TEST_CASE("at the minimum one more overflow is DeepSpeed's error, and the machine stays") {
    hysteresis_scale s = start(4, 1000, 1, false);
    s.update(false);
    s.update(false);
    CHECK(s.value == 1);
    const auto before = s.state();
    for (int again = 0; again < 2; ++again) {
        const std::string line = refusal([&] { s.update(false, "first in h.0.ln_1.bias"); });
        CHECK(says(line, "first in h.0.ln_1.bias at the smallest scale 1. Current loss scale "
                         "already at minimum - cannot decrease scale anymore; the scale is not "
                         "the cause"));
        CHECK(s.value == 1);
        CHECK(s.iteration == 2);
    }
    CHECK(s.skipped == 4);
    CHECK(before.at("last_overflow_iter") == s.state().at("last_overflow_iter"));

    s.raise_error_at_min_scale = false; // then it skips for ever, in silence
    for (int i = 0; i < 100; ++i) CHECK_FALSE(s.update(false));
    CHECK(s.value == 1);
    hysteresis_scale between = start(5, 1000, 1, false); // a minimum that halving does not meet
    between.minimum = 2;
    between.update(false);
    CHECK(between.value == 2.5f);
    between.update(false);
    CHECK(between.value == 2);
    CHECK_THROWS_AS(between.update(false), error);
}

TEST_CASE("every change says why, also one that leaves the scale alone") {
    hysteresis_scale s = start(65536, 2, 2, false);
    s.update(false, "3 of 9 gradients not finite, first in wte.weight");
    CHECK(s.last.line(1) == "step 1: 3 of 9 gradients not finite, first in wte.weight, hysteresis "
                            "2 -> 1; scale stays 65536; step skipped");
    s.update(false);
    CHECK(s.last.line(2) == "step 2: gradients not finite; scale 65536 -> 32768; step skipped");
    s.update(true);
    s.update(true);
    CHECK(s.last.line(4) == "");
    s.update(true);
    CHECK(s.last.line(5) == "step 5: 2 finite steps, hysteresis 1 -> 2; scale 32768 -> 65536");
    s.consecutive_hysteresis = true;
    s.update(false);
    s.update(true);
    CHECK(s.last.line(7) == "step 7: hysteresis 1 -> 2; scale stays 65536");
    s = start(0x1p127f, 1, 1, false);
    s.update(true);
    s.update(true);
    CHECK(says(s.last.line(2), "1 finite steps, but 2 times the scale passes fp32; scale stays"));
}

TEST_CASE("DeepSpeed's configuration: names, defaults, 0 means dynamic") {
    const hysteresis_scale s = hysteresis_scale::from({});
    CHECK(s.dynamic);
    CHECK(s.value == 65536);
    CHECK(s.window == 1000);
    CHECK(s.hysteresis == 2);
    CHECK_FALSE(s.consecutive_hysteresis);
    CHECK(s.minimum == 1);
    CHECK(s.raise_error_at_min_scale);
    fp16_settings fp16;
    fp16.loss_scale = 128;
    hysteresis_scale fixed = hysteresis_scale::from(fp16);
    for (int i = 0; i < 9; ++i) CHECK_FALSE(fixed.update(false));
    for (int i = 0; i < 3000; ++i) CHECK(fixed.update(true));
    CHECK(fixed.value == 128);
    for (int i = 0; i < 9; ++i) fixed.update(false);
    CHECK(says(refusal([&] { fixed.update(false); }), "10 steps in a row skipped at the fixed"));

    const auto refused = [](auto change) {
        fp16_settings bad;
        change(bad);
        return refusal([&] { hysteresis_scale::from(bad); });
    };
    const double infinite = INFINITY, nan = NAN;
    CHECK(says(refused([&](fp16_settings& f) { f.loss_scale = infinite; }),
               "fp16.loss_scale must be finite and 0 (dynamic) or more, got inf"));
    CHECK(says(refused([&](fp16_settings& f) { f.loss_scale = nan; }), "got nan"));
    CHECK(says(refused([&](fp16_settings& f) { f.loss_scale = -1; }), "got -1"));
    CHECK(says(refused([&](fp16_settings& f) { f.loss_scale = 1e300; }), "got 1e+300"));
    CHECK(says(refused([&](fp16_settings& f) { f.initial_scale_power = 128; }), "got 128"));
    CHECK(says(refused([&](fp16_settings& f) { f.loss_scale_window = 0; }),
               "loss_scale_window must be greater than 0, got 0"));
    CHECK(says(refused([&](fp16_settings& f) { f.hysteresis = 0; }),
               "hysteresis must be greater than 0, got 0"));
    CHECK(says(refused([&](fp16_settings& f) { f.min_loss_scale = 0; }),
               "fp16.min_loss_scale must be finite and greater than 0, got 0"));
    CHECK(says(refused([&](fp16_settings& f) { f.min_loss_scale = 65537; }), "got 65537"));
    hysteresis_scale used_up;
    used_up.spent = 2; // of 2: then S would have fallen
    CHECK(says(refusal([&] { used_up.validate(); }), "hysteresis 0 of 2"));
}

TEST_CASE("a damaged state, or that of another machine or version, is refused by name") {
    const auto good = start(1024, 3, 2, false).state();
    hysteresis_scale s;
    for (const auto& [key, value] : good) {
        auto saved = good;
        saved.erase(key);
        CHECK(says(refusal([&] { s.restore(saved); }), "no " + key));
        for (const std::string bad : {"", "x", "1x", " 1", "nan", "-2", "1e999"}) {
            saved = good;
            saved[key] = bad;
            CHECK_MESSAGE(says(refusal([&] { s.restore(saved); }), "loss scale"), key, "=", bad);
        }
    }
    for (const std::string left : {"-2147483648", "0", "3"}) { // of 2
        auto saved = good;
        saved["cur_hysteresis"] = left;
        CHECK(says(refusal([&] { s.restore(saved); }), "hysteresis " + left + " of 2; no run"));
    }
    CHECK(says(refusal([&] { s.restore(loss_scale{}.state()); }),
               "the saved state is that of a GradScaler, wanted a DynamicLossScaler's"));
    auto later = good;
    later["version"] = "2";
    CHECK(says(refusal([&] { s.restore(later); }), "has version 2, wanted 1"));
    CHECK(s.state() == hysteresis_scale{}.state());
}

TEST_CASE("a sum of finite gradients can be infinite: elements are asked, not their sum") {
    std::vector<float> g{2e38f, 1e-3f, 2e38f};
    float sum = 0;
    for (const float x : g) sum += x;
    CHECK(std::isinf(sum)); // DeepSpeed's question would have skipped this step
    rig::machine cpu;
    layout map;
    map.add_unit("all");
    map.add("weight", {3}, 0);
    CHECK(inspect(cpu.on, rig::by_unit(map, g.data())).finite);
    g[1] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(inspect(cpu.on, rig::by_unit(map, g.data())).finite);
}
