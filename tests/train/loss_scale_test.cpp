// SPDX-License-Identifier: MIT
#include "mpt/train/loss_scale.hpp"

#include "rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

loss_scale start(float value, int interval, float minimum = 0) {
    loss_scale s;
    s.value = value;
    s.interval = interval;
    s.minimum = minimum;
    return s;
}

// The trace of GradScaler: init 1024, interval 3.
const std::vector<int> found{0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0};
using step_state = std::pair<float, int>; // scale, tracker
const std::vector<step_state> expected{{1024, 1}, {1024, 2}, {2048, 0}, {2048, 1}, {2048, 2},
                                       {1024, 0}, {1024, 1}, {1024, 2}, {512, 0},  {256, 0},
                                       {256, 1},  {256, 2},  {512, 0},  {512, 1}};

// What the scale does with `found`; `between` may change it before each step.
std::vector<step_state> trace(loss_scale s, const std::function<void(loss_scale&)>& between = {}) {
    std::vector<step_state> seen;
    for (const int overflow : found) {
        if (between) between(s);
        CHECK(s.update(!overflow) == !overflow);
        seen.emplace_back(s.value, s.good);
    }
    return seen;
}

// GradScaler's update, written a second time.
struct grad_scaler {
    float scale = 65536;
    int tracker = 0;
    void update(bool found_inf, int interval) {
        if (found_inf) {
            scale = float(scale * 0.5);
            tracker = 0;
        } else if (++tracker == interval) {
            const float grown = float(scale * 2.0);
            if (grown <= std::numeric_limits<float>::max()) scale = grown;
            tracker = 0;
        }
    }
};

// GradScaler with a floor, told from the recorded history: between two overflows lie `gap` finite
// steps, after which S has grown gap / interval times and the tracker is the rest. Factors are
// powers of two, so that a scale is an exponent and this model needs no arithmetic of floats.
struct told {
    int exponent, good;
    bool ended; // an overflow at the floor
};
std::vector<told> from_history(const std::vector<char>& overflowed, int start, int grow, int back,
                               int interval, int floor) { // floor: exponent; INT_MIN: none
    std::vector<told> all;
    int base = start; // exponent after the latest overflow
    for (std::size_t i = 0, gap_begin = 0; i < overflowed.size(); ++i) {
        const int gap = int(i + 1 - gap_begin) - (overflowed[i] ? 1 : 0);
        const int room = (127 - base) / grow; // growths until fp32 ends
        const int now = base + grow * std::min(gap / interval, room);
        if (!overflowed[i]) {
            all.push_back({now, gap % interval, false});
            continue;
        }
        base = std::max(now - back, floor);
        gap_begin = i + 1;
        all.push_back({base, 0, now == floor});
        if (now == floor) break;
    }
    return all;
}

// Random scales and overflows until something differs; returns how many sequences agreed.
long agreeing(long sequences, const std::function<void(loss_scale&)>& change = {}) {
    std::mt19937 random(12);
    long steps = 0, ends = 0, caps = 0, below_one = 0;
    for (long i = 0; i < sequences; ++i) {
        const int grow = 1 + int(random() % 3), back = 1 + int(random() % 3);
        const int interval = 1 + int(random() % 6);
        const int floor = random() % 3 ? int(random() % 8) : INT_MIN;
        const int begin = random() % 8 == 0 ? 118 + int(random() % 10) : 8 + int(random() % 10);
        loss_scale s = start(std::ldexp(1.0f, begin), interval);
        s.growth = std::ldexp(1.0, grow);
        s.backoff = std::ldexp(1.0, -back);
        s.minimum = floor == INT_MIN ? 0 : std::ldexp(1.0f, floor);
        s.validate();
        std::vector<char> overflowed(6 + random() % 18);
        const unsigned odds = 1 + unsigned(random() % 8); // an overflow in 1 to 8 steps
        for (char& o : overflowed) o = random() % odds == 0;
        const std::vector<told> want = from_history(overflowed, begin, grow, back, interval, floor);
        const bool saved = i % 200 == 0; // ... and restored at every step
        for (std::size_t step = 0; step < want.size(); ++step) {
            if (saved) {
                loss_scale fresh;
                fresh.restore(s.state());
                s = fresh;
            }
            bool ended = false;
            try {
                if (s.update(!overflowed[step]) == bool(overflowed[step])) return i;
            } catch (const error&) {
                ended = true;
            }
            if (change) change(s);
            const told& w = want[step];
            if (ended != w.ended || s.value != std::ldexp(1.0f, w.exponent) || s.good != w.good)
                return i;
            ++steps;
            ends += ended;
            caps += w.exponent + grow > 127 && w.good == 0;
            below_one += w.exponent < 0;
        }
    }
    if (!change) { // the sequences met everything that there is
        CHECK(steps > 8 * sequences);
        CHECK(ends > sequences / 100);
        CHECK(caps > sequences / 100);
        CHECK(below_one > sequences / 100);
    }
    return sequences;
}

} // namespace

TEST_CASE("a million random overflow sequences agree with a model that reads their history") {
    CHECK(agreeing(1000000) == 1000000);
}
TEST_CASE("sabotage: the same sequences notice a scale that is slightly wrong") {
    CHECK(agreeing(1000, [](loss_scale& s) { s.good = std::min(s.good, 3); }) < 100);
    CHECK(agreeing(1000, [](loss_scale& s) { s.value = std::max(s.value, 1.0f); }) < 1000);
    CHECK(agreeing(1000, [](loss_scale& s) { s.value = std::min(s.value, 0x1p126f); }) < 1000);
    CHECK(agreeing(1000, [](loss_scale& s) { if (s.last.skipped) s.good = 1; }) < 100);
}

TEST_CASE("scale and tracker follow GradScaler's trace") {
    CHECK(trace(start(1024, 3)) == expected);
}

TEST_CASE("sabotage: a tracker that survives an overflow, or an interval off by one, is noticed") {
    int kept = 0;
    CHECK(trace(start(1024, 3), [&](loss_scale& s) { // puts back what an overflow cleared
              if (s.good == 0 && s.last.skipped) s.good = kept;
              kept = s.good;
          }) != expected);
    CHECK(trace(start(1024, 4)) != expected);
    CHECK(trace(start(1024, 3, 511)) != expected); // a floor that GradScaler does not have
}

TEST_CASE("a million random steps agree with a second model of GradScaler") {
    std::mt19937 random(11);
    loss_scale s = start(65536, 7);
    grad_scaler other;
    long skipped = 0;
    bool equal = true;
    for (int step = 0; step < 1000000 && equal; ++step) {
        // long quiet times, in which the scale reaches its cap, and storms
        const bool overflow = random() % ((step / 4000) % 2 ? 4 : 400) == 0;
        const bool go = s.update(!overflow);
        other.update(overflow, 7);
        skipped += overflow;
        equal = go == !overflow && s.value == other.scale && s.good == other.tracker &&
                s.skipped == skipped;
    }
    CHECK(equal);
}

TEST_CASE("at the floor one more overflow is an error: 4 -> 2, 1, error, error") {
    loss_scale s = start(4, 2000, 1);
    CHECK_FALSE(s.update(false));
    CHECK(s.value == 2);
    CHECK_FALSE(s.update(false));
    CHECK(s.value == 1);
    const char* found = "3 of 9 gradients not finite, first in h.0.ln_1.bias";
    for (int again = 0; again < 2; ++again) {
        const std::string line = refusal([&] { s.update(false, found); });
        CHECK(says(line, "first in h.0.ln_1.bias"));
        CHECK(says(line, "smallest scale 1"));
        CHECK(s.value == 1);
    }
    CHECK(s.skipped == 4);
}

TEST_CASE("sabotage: without the floor the scale goes below 1 in silence, and 1/S to infinity") {
    loss_scale s = start(4, 2000, 0);
    for (int i = 0; i < 140; ++i) CHECK_FALSE(s.update(false));
    CHECK(s.value < 1);
    CHECK(std::isinf(1.0f / s.value));
}

TEST_CASE("a floor that is no power of two is not passed") {
    loss_scale s = start(100, 2000, 30);
    s.update(false);
    CHECK(s.value == 50);
    s.update(false);
    CHECK(s.value == 30);
    CHECK_THROWS_AS(s.update(false), error);
}

TEST_CASE("the scale does not grow past fp32: from 2^126 it stays at 2^127") {
    loss_scale s = start(0x1p126f, 1);
    for (int i = 0; i < 4; ++i) {
        CHECK(s.update(true));
        CHECK(s.value == 0x1p127f);
        CHECK(s.good == 0);
    }
    CHECK(says(s.last.line(4), "scale stays 1.7014118e+38"));
}

TEST_CASE("an interval lowered below the tracker: S grows at the next finite step") {
    loss_scale s = start(1024, 7);
    for (int i = 0; i < 5; ++i) s.update(true);
    grad_scaler other{1024, s.good};
    s.interval = 3;
    s.update(true);
    other.update(false, 3); // asks for equality, which has passed
    CHECK(s.value == 2048);
    CHECK(s.good == 0);
    CHECK(other.scale == 1024);
    CHECK(other.tracker == 6);
    s.good = INT_MAX; // as a saved state may have it
    s.update(true);
    CHECK(s.value == 4096);
}

TEST_CASE("saved and resumed at every step, the trace is the uninterrupted one") {
    CHECK(trace(start(1024, 3), [](loss_scale& s) {
              loss_scale fresh;
              fresh.restore(s.state());
              s = fresh;
          }) == expected);
    // saved after entry 7 (1024, tracker 1), resumed: 2, then an overflow: 512
    loss_scale s = start(1024, 3);
    for (int i = 0; i < 7; ++i) s.update(!found[std::size_t(i)]);
    loss_scale resumed;
    resumed.restore(s.state());
    CHECK(resumed.value == 1024);
    CHECK(resumed.good == 1);
    resumed.update(true);
    CHECK(resumed.good == 2);
    resumed.update(false);
    CHECK(resumed.value == 512);
}

TEST_CASE("sabotage: a resume that loses one entry of the state is noticed") {
    for (const char* lost : {"scale", "growth_interval", "_growth_tracker"})
        CHECK(trace(start(1024, 3), [lost](loss_scale& s) {
                  auto saved = s.state();
                  saved[lost] = loss_scale{}.state()[lost];
                  s.restore(saved);
              }) != expected);
}

TEST_CASE("every number of the state comes back exactly") {
    loss_scale s;
    s.value = 12345.678f;
    s.growth = 1.1;
    s.backoff = 1.0 / 3;
    s.interval = 17;
    s.minimum = 0.1f;
    s.patience = 3;
    s.good = 5;
    s.skipped = 123456789012;
    s.skipped_in_a_row = 2;
    loss_scale back;
    back.restore(s.state());
    CHECK(back.state() == s.state());
    CHECK(back.value == s.value);
    CHECK(back.growth == s.growth);
    CHECK(back.backoff == s.backoff);
    CHECK(back.minimum == s.minimum);
    back.restore(loss_scale::fixed(128).state());
    CHECK_FALSE(back.dynamic);
}

TEST_CASE("a damaged state is refused, and nothing is changed") {
    const auto good = start(1024, 3).state();
    loss_scale s;
    for (const auto& [key, value] : good) {
        auto saved = good;
        saved.erase(key);
        CHECK(says(refusal([&] { s.restore(saved); }), key));
        for (const std::string bad : {"", "x", "1x", " 1", "nan", "-1", "1e999"}) {
            saved = good;
            saved[key] = bad;
            CHECK_MESSAGE(says(refusal([&] { s.restore(saved); }), "loss scale"), key, "=", bad);
        }
    }
    CHECK(s.state() == loss_scale{}.state());
}

TEST_CASE("the state of another version, another scaler, or none is refused by name") {
    loss_scale s;
    auto saved = start(1024, 3).state();
    CHECK(saved.at("kind") == "GradScaler");
    saved["version"] = "2";
    CHECK(refusal([&] { s.restore(saved); }) ==
          "loss scale: the saved state has version 2, wanted 1; go on with the program that saved "
          "it, or begin with a new scale");
    saved["kind"] = "DynamicLossScaler";
    CHECK(says(refusal([&] { s.restore(saved); }),
               "the saved state is that of a DynamicLossScaler, wanted a GradScaler's"));
    saved.erase("kind"); // as states had it before they were named
    CHECK(says(refusal([&] { s.restore(saved); }),
               "the saved state has no kind, wanted GradScaler of version 1"));
    CHECK(says(refusal([&] { s.restore({}); }), "loss_scale::from_pytorch"));
    CHECK(s.state() == loss_scale{}.state());
}

TEST_CASE("a state dict of PyTorch's is taken over, and goes on as it would there") {
    // as Python prints the five
    const scale_words state_dict{{"scale", "0.5"},
                                 {"growth_factor", "2.0"},
                                 {"backoff_factor", "0.5"},
                                 {"growth_interval", "3"},
                                 {"_growth_tracker", "2"}};
    loss_scale s = loss_scale::from_pytorch(state_dict);
    CHECK(s.value == 0.5f);
    CHECK(s.minimum == 0);
    CHECK(s.good == 2);
    s.update(true);
    CHECK(s.value == 1);
    for (int i = 0; i < 5; ++i) s.update(false); // no floor there
    CHECK(s.value == 0x1p-5f);
    // and back: its five keys are among ours, with its values
    const auto ours = loss_scale::from_pytorch(state_dict).state();
    for (const auto& [key, value] : state_dict)
        CHECK_MESSAGE(std::stod(ours.at(key)) == std::stod(value), key);
    for (const auto& [key, value] : state_dict) {
        auto bad = state_dict;
        bad.erase(key);
        CHECK(says(refusal([&] { loss_scale::from_pytorch(bad); }), "no " + key));
    }
    CHECK(says(refusal([] { loss_scale::from_pytorch({}); }),
               "The source state dict is empty, possibly because it was saved from a disabled "
               "instance of GradScaler."));
}

TEST_CASE("the defaults are GradScaler's") {
    const loss_scale s;
    CHECK(s.value == 65536);
    CHECK(s.growth == 2);
    CHECK(s.backoff == 0.5);
    CHECK(s.interval == 2000);
    CHECK(s.minimum == 1); // the one that GradScaler does not have
}

TEST_CASE("values that cannot work are refused with the value") {
    const auto with = [](auto change) {
        loss_scale s;
        change(s);
        return refusal([&] { s.validate(); });
    };
    CHECK(with([](loss_scale&) {}) == "nothing");
    CHECK(says(with([](loss_scale& s) { s.value = 0; }), "0 cannot scale"));
    CHECK(says(with([](loss_scale& s) { s.value = -2; }), "-2"));
    CHECK(says(with([](loss_scale& s) { s.value = INFINITY; }), "inf"));
    CHECK(says(with([](loss_scale& s) { s.value = NAN; }), "nan"));
    CHECK(says(with([](loss_scale& s) { s.growth = 1; }), "growth 1"));
    CHECK(says(with([](loss_scale& s) { s.backoff = 1; }), "backoff 1"));
    CHECK(says(with([](loss_scale& s) { s.backoff = 0; }), "backoff 0"));
    CHECK(says(with([](loss_scale& s) { s.interval = 0; }), "interval of 0"));
    CHECK(says(with([](loss_scale& s) { s.minimum = 131072; }), "minimum of 131072"));
    CHECK(says(with([](loss_scale& s) { s.growth = 1; }), "the growth factor must be > 1.0"));
    CHECK(says(with([](loss_scale& s) { s.backoff = 1; }), "the backoff factor must be < 1.0"));
    CHECK(says(with([](loss_scale& s) { s.good = -1; }), "-1 finite steps"));
    CHECK(says(refusal([] { loss_scale::fixed(0); }), "0 cannot scale"));
    CHECK(says(refusal([] { loss_scale::fixed(0); }), "must be finite and greater than 0"));
    CHECK(says(refusal([] { loss_scale::fixed(INFINITY); }), "inf cannot scale"));
}

TEST_CASE("a fixed scale never moves; ten skips in a row are an error, nine are not") {
    loss_scale s = loss_scale::fixed(128);
    for (int i = 0; i < 5000; ++i) CHECK(s.update(true));
    CHECK(s.value == 128);
    for (int i = 0; i < 9; ++i) CHECK_FALSE(s.update(false));
    CHECK(s.update(true)); // begins anew
    for (int i = 0; i < 9; ++i) CHECK_FALSE(s.update(false));
    const std::string line = refusal([&] { s.update(false); });
    CHECK(says(line, "10 steps in a row"));
    CHECK(says(line, "fixed scale 128"));
    CHECK(s.value == 128);
    CHECK(s.skipped == 19);

    loss_scale patient = loss_scale::fixed(1);
    patient.patience = 0;
    for (int i = 0; i < 1000; ++i) CHECK_FALSE(patient.update(false));
    patient = loss_scale::fixed(1);
    patient.patience = 3;
    patient.update(false);
    patient.update(false);
    CHECK(says(refusal([&] { patient.update(false); }), "lower the learning rate"));
}

TEST_CASE("every change has a line that tells the truth") {
    loss_scale s = start(65536, 2, 1);
    s.update(true);
    CHECK(s.last.line(1) == "");
    s.update(true);
    CHECK(s.last.line(2) == "step 2: 2 finite steps; scale 65536 -> 131072");
    s.update(false, "3 of 12.6 M gradients not finite, first in h.2.attn.c_attn.weight");
    CHECK(s.last.line(41) == "step 41: 3 of 12.6 M gradients not finite, first in "
                             "h.2.attn.c_attn.weight; scale 131072 -> 65536; step skipped");
    loss_scale fixed = loss_scale::fixed(8);
    fixed.update(false);
    CHECK(fixed.last.line(5) == "step 5: gradients not finite; scale stays 8; step skipped");
}

TEST_CASE("the seed is the scale over the tokens of the window") {
    CHECK(start(65536, 1).seed(1024) == 64);
    CHECK(loss_scale::fixed(1).seed(3) == float(1.0 / 3));
    CHECK(start(1, 1).seed(16777217) == float(1.0 / 16777217)); // more than fp32 counts
    CHECK(says(refusal([] { loss_scale{}.seed(0); }), "0 target tokens"));
}

TEST_CASE("a loss that is NaN at scale 1 is reported as that, at its step") {
    CHECK(says(refusal([] { check_loss(NAN, 12); }), "step 12: loss is NaN"));
    CHECK(says(refusal([] { check_loss(INFINITY, 3); }), "step 3: loss is infinite"));
    CHECK(refusal([] { check_loss(4.5, 3); }) == "nothing");
}
