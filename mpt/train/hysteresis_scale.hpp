// SPDX-License-Identifier: MIT
/// @file hysteresis_scale.hpp
/// The dynamic loss scale as DeepSpeed moves it.                           tier 5, needs:
/// base/error.hpp train/any_scale.hpp
///
/// Idea     An overflow now and then is an outlier, several are a scale that is too high. So the
///          first `hysteresis` - 1 overflows skip their step and leave S alone; the next halves it.
/// Formula  overflow: left == 1 -> S = max(S / 2, minimum), else --left;  last = iteration
///          finite:   k = iteration - last - 1;  k > 0 and k % window == 0 -> S *= 2, left refilled
///          consecutive: left is refilled by every finite step, not by growth
/// Costs    memory: the few numbers below.  compute: one read of the gradients (inspect.hpp)
/// Breaks   an overflow found by sum(), as there: finite numbers may have an infinite sum, and a
///          step is lost; inspect.hpp asks the elements.  Growth comes one step later than
///          GradScaler's: the finite step after an overflow is k = 0, and it is not counted
/// Source   DeepSpeed, deepspeed/runtime/fp16/loss_scaler.py, DynamicLossScaler
/// See      loss_scale.hpp (GradScaler's rules), tests/train/hysteresis_scale_test.cpp
#pragma once
#include "mpt/base/error.hpp"      // check
#include "mpt/train/any_scale.hpp" // any_scale: value, seed, skipped, last; shortest

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace mpt {

/// The "fp16" part of a DeepSpeed configuration, its names and defaults.
struct fp16_settings {
    double loss_scale = 0; // 0: dynamic, and not "no scale". Above 0: S, which then never moves
    int initial_scale_power = 16;
    int loss_scale_window = 1000;
    int hysteresis = 2;
    bool consecutive_hysteresis = false;
    double min_loss_scale = 1;
};

struct hysteresis_scale : any_scale {
    double factor = 2.0;                  // up and down
    int window = 1000;                    // finite steps before S grows
    int hysteresis = 2;                   // the overflow that lowers S; 1: each one
    bool consecutive_hysteresis = false;  // refill at every finite step, not when S grows
    float minimum = 1.0f;                 // S does not fall below it
    bool raise_error_at_min_scale = true; // one more overflow there is an error

    int spent = 0;           // of the hysteresis, by overflows that left S alone
    long iteration = 0;      // updates so far, DeepSpeed's cur_iter
    long last_overflow = -1; // the iteration of the latest overflow

    /// DeepSpeed's cur_hysteresis: the overflow after so many lowers S.
    int left() const { return hysteresis - spent; }

    static hysteresis_scale from(const fp16_settings& fp16) {
        constexpr double fp32_max = 0x1.fffffep127;
        check(fp16.loss_scale >= 0 && fp16.loss_scale <= fp32_max,
              "fp16.loss_scale must be finite and 0 (dynamic) or more, got ",
              shortest(fp16.loss_scale), "; give 0, or a power of two for one that never moves");
        check(fp16.initial_scale_power >= 0 && fp16.initial_scale_power < 128,
              "fp16.initial_scale_power must lie in 0 to 127, got ", fp16.initial_scale_power,
              "; the scale begins at 2 to this power, give 16");
        check(fp16.min_loss_scale > 0 && fp16.min_loss_scale <= fp32_max,
              "fp16.min_loss_scale must be finite and greater than 0, got ",
              shortest(fp16.min_loss_scale), "; give a number such as 1");
        hysteresis_scale s;
        s.dynamic = fp16.loss_scale == 0;
        s.value = float(s.dynamic ? std::ldexp(1.0, fp16.initial_scale_power) : fp16.loss_scale);
        s.window = fp16.loss_scale_window;
        s.hysteresis = fp16.hysteresis;
        s.consecutive_hysteresis = fp16.consecutive_hysteresis;
        s.minimum = float(s.dynamic ? fp16.min_loss_scale : fp16.loss_scale);
        s.validate();
        return s;
    }

    /// Call once a step, with the same `finite` on every rank; true: the step may be taken.
    /// `found` says what is not finite and where. Throws at the minimum, with the machine as it
    /// was, or when a fixed scale has skipped `patience` steps in a row.
    bool update(bool finite, std::string_view found = {}) {
        count(finite, found);
        if (!dynamic) return finite;
        finite ? finite_step() : overflow();
        ++iteration;
        last.to = value;
        return finite;
    }

    /// Throws one line for values that no run can work with.
    void validate() const {
        validate_common();
        check(std::isfinite(factor) && factor > 1, "loss scale: a factor of ", shortest(factor),
              " moves nothing; give a number above 1, such as 2");
        check(window > 0, "loss scale: loss_scale_window must be greater than 0, got ", window,
              "; give the finite steps before growth, such as 1000");
        check(hysteresis > 0, "loss scale: hysteresis must be greater than 0, got ", hysteresis,
              "; give 1 to lower the scale at each overflow, or 2");
        check(minimum > 0 && minimum <= value, "loss scale: min_loss_scale must be greater than 0 "
              "and at most the scale ", shortest(value), ", got ", shortest(minimum),
              "; give a number such as 1");
        check(spent >= 0 && spent < hysteresis && last_overflow >= -1 && last_overflow < iteration,
              "loss scale: hysteresis ", left(), " of ", hysteresis, ", iteration ", iteration,
              ", last overflow at ", last_overflow, "; no run comes to such a state");
    }

    static constexpr const char* kind = "DynamicLossScaler";
    static constexpr const char* version = "1";

    /// Everything a resumed run needs, as text, by DeepSpeed's names.
    scale_words state() const {
        scale_words words = named_state(kind, version);
        words.insert({{"cur_scale", shortest(value)},
                      {"cur_iter", shortest(iteration)},
                      {"last_overflow_iter", shortest(last_overflow)},
                      {"scale_factor", shortest(factor)},
                      {"scale_window", shortest(window)},
                      {"min_scale", shortest(minimum)},
                      {"delayed_shift", shortest(hysteresis)},
                      {"cur_hysteresis", shortest(left())},
                      {"consecutive_hysteresis", shortest(int(consecutive_hysteresis))},
                      {"raise_error_at_min_scale", shortest(int(raise_error_at_min_scale))},
                      {"dynamic", shortest(int(dynamic))},
                      {"skip_patience", shortest(patience)},
                      {"skipped_steps", shortest(skipped)},
                      {"skipped_in_a_row", shortest(skipped_in_a_row)}});
        return words;
    }

    /// Take over what state() wrote. Throws, and changes nothing, where it is not that.
    void restore(const scale_words& saved) {
        check_named(saved, kind, version);
        hysteresis_scale s;
        int hysteresis_left = 0;
        read_saved(saved, "cur_scale", s.value);
        read_saved(saved, "cur_iter", s.iteration);
        read_saved(saved, "last_overflow_iter", s.last_overflow);
        read_saved(saved, "scale_factor", s.factor);
        read_saved(saved, "scale_window", s.window);
        read_saved(saved, "min_scale", s.minimum);
        read_saved(saved, "delayed_shift", s.hysteresis);
        read_saved(saved, "cur_hysteresis", hysteresis_left);
        read_saved(saved, "consecutive_hysteresis", s.consecutive_hysteresis);
        read_saved(saved, "raise_error_at_min_scale", s.raise_error_at_min_scale);
        read_saved(saved, "dynamic", s.dynamic);
        read_saved(saved, "skip_patience", s.patience);
        read_saved(saved, "skipped_steps", s.skipped);
        read_saved(saved, "skipped_in_a_row", s.skipped_in_a_row);
        check(hysteresis_left > 0 && hysteresis_left <= s.hysteresis, "loss scale: hysteresis ",
              hysteresis_left, " of ", s.hysteresis, "; no run comes to such a state");
        s.spent = s.hysteresis - hysteresis_left;
        s.validate();
        *this = s;
    }

private:
    void overflow() {
        if (left() > 1) {
            ++spent;
            last.why += ", hysteresis " + shortest(left() + 1) + " -> " + shortest(left());
        } else {
            check(value > minimum || !raise_error_at_min_scale, "loss scale: ", last.why,
                  " at the smallest scale ", shortest(value), ". Current loss scale already at "
                  "minimum - cannot decrease scale anymore", at_the_minimum);
            value = std::max(float(double(value) / factor), minimum);
        }
        last_overflow = iteration;
    }

    void finite_step() {
        if (consecutive_hysteresis) refill();
        const long stable = iteration - last_overflow - 1;
        if (stable <= 0 || stable % window != 0) return;
        if (!consecutive_hysteresis) refill();
        last.why = shortest(stable) + " finite steps" + (last.why.empty() ? "" : ", ") + last.why;
        const double larger = double(value) * factor;
        if (larger < 0x1.ffffffp127) // rounds to infinity from there on
            value = float(larger);
        else
            last.why += ", but " + shortest(factor) + " times the scale passes fp32";
    }

    void refill() {
        if (spent > 0) last.why = "hysteresis " + shortest(left()) + " -> " + shortest(hysteresis);
        spent = 0;
    }
};

} // namespace mpt
