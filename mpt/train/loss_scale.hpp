// SPDX-License-Identifier: MIT
/// @file loss_scale.hpp
/// Keep fp16 gradients out of underflow.                              tier 5, needs: base/error.hpp
///
/// Idea     Multiply the loss by S before backward, divide the gradients by S before the step.
///          S grows until something overflows; an overflow shrinks S and skips that step.
/// Formula  seed = S / tokens of the whole window;  g = (sum of backward(seed)) / S
///          overflow: S = max(S * backoff, minimum), good = 0, the step is skipped
///          finite:   ++good;  good == interval -> S *= growth where that is finite, good = 0
/// Costs    memory: the few numbers below.  compute: one read of the gradients (inspect.hpp)
/// Breaks   ranks that disagree on `finite` drift apart: pass comm.all(finite). Without a floor a
///          NaN from elsewhere halves S for ever, until g / S overflows too
/// Source   Micikevicius et al. 2018, Mixed Precision Training, arXiv:1710.03740;
///          the rules and the names of the state are those of torch.amp.GradScaler
/// See      inspect.hpp (finite?), adamw.hpp (applies 1/S), tests/train/loss_scale_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check, join

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

namespace mpt {

/// The shortest text that reads back as x.
template <class Number>
std::string shortest(Number x) {
    char digits[40];
    return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

/// What the latest update did, for the log.
struct scale_change {
    float from = 0, to = 0;
    bool skipped = false; // the step was not taken
    std::string why;      // empty: a finite step like any other, nothing to tell

    /// "step 41: WHY; scale 65536 -> 32768; step skipped", or nothing where nothing happened.
    std::string line(long step) const {
        if (why.empty()) return {};
        const std::string moved = from == to ? join("scale stays ", shortest(to))
                                             : join("scale ", shortest(from), " -> ", shortest(to));
        return join("step ", step, ": ", why, "; ", moved, skipped ? "; step skipped" : "");
    }
};

struct loss_scale {
    float value = 65536.0f; // S. A power of two costs the gradients no bit
    double growth = 2.0;    // what S is multiplied with after `interval` finite steps
    double backoff = 0.5;   // ... and after an overflow
    int interval = 2000;    // finite steps in a row before S grows
    float minimum = 1.0f;   // floor: one more overflow there is an error. 0: none, as GradScaler
    bool dynamic = true;    // false: S stays what it is
    int patience = 10;      // S fixed: so many skipped steps in a row are an error. 0: never

    int good = 0;             // finite steps since S last changed
    long skipped = 0;         // steps lost to overflow, over the whole run
    long skipped_in_a_row = 0;
    scale_change last;        // what the latest update did

    /// A scale that never moves; 1 for formats that need none.
    static loss_scale fixed(float value) {
        loss_scale s;
        s.value = s.minimum = value;
        s.dynamic = false;
        s.validate();
        return s;
    }

    /// What backward starts from: d(loss)/d(loss), scaled, with the mean over the tokens of the
    /// whole window (all micro-batches, all ranks) folded in. Throws for a window without a target.
    float seed(long tokens) const {
        check(tokens > 0, "loss scale: a window with ", tokens,
              " target tokens has no mean loss; leave it out, or give data with targets");
        return float(double(value) / double(tokens));
    }

    /// Call once a step, with the same `finite` on every rank; true: the step may be taken.
    /// `found` says what is not finite and where (describe() in inspect.hpp). Throws at the floor,
    /// or when a fixed scale has skipped `patience` steps in a row.
    bool update(bool finite, std::string_view found = {}) {
        last = {value, value, !finite, {}};
        finite ? grow() : shrink(found.empty() ? "gradients not finite" : std::string(found));
        last.to = value;
        return finite;
    }

    /// Throws one line for values that no run can work with.
    void validate() const {
        check(std::isfinite(value) && value > 0, "loss scale: ", shortest(value),
              " cannot scale anything; give a finite number above 0, best a power of two");
        check(std::isfinite(growth) && growth > 1, "loss scale: growth ", shortest(growth),
              " does not grow; give a number above 1, such as 2");
        check(backoff > 0 && backoff < 1, "loss scale: backoff ", shortest(backoff),
              " does not shrink; give a number between 0 and 1, such as 0.5");
        check(interval > 0, "loss scale: an interval of ", interval,
              " steps; give at least 1, such as 2000");
        check(minimum >= 0 && minimum <= value, "loss scale: a minimum of ", shortest(minimum),
              " under a scale of ", shortest(value), "; give a number from 0 to the scale");
        check(patience >= 0 && good >= 0 && skipped >= 0 && skipped_in_a_row >= 0,
              "loss scale: patience ", patience, ", good ", good, ", skipped ", skipped, " (",
              skipped_in_a_row, " in a row); none of them is ever negative");
    }

    /// Everything a resumed run needs, as text; GradScaler's names where it has the same thing.
    std::map<std::string, std::string> state() const {
        return {{"scale", shortest(value)},
                {"growth_factor", shortest(growth)},
                {"backoff_factor", shortest(backoff)},
                {"growth_interval", shortest(interval)},
                {"_growth_tracker", shortest(good)},
                {"minimum_scale", shortest(minimum)},
                {"dynamic_scale", shortest(int(dynamic))},
                {"skip_patience", shortest(patience)},
                {"skipped_steps", shortest(skipped)},
                {"skipped_in_a_row", shortest(skipped_in_a_row)}};
    }

    /// Take over what state() wrote; other keys are not looked at. Throws, and changes nothing,
    /// when a key is missing or a value is none.
    void restore(const std::map<std::string, std::string>& saved) {
        loss_scale s;
        int is_dynamic = 1;
        read(saved, "scale", s.value);
        read(saved, "growth_factor", s.growth);
        read(saved, "backoff_factor", s.backoff);
        read(saved, "growth_interval", s.interval);
        read(saved, "_growth_tracker", s.good);
        read(saved, "minimum_scale", s.minimum);
        read(saved, "dynamic_scale", is_dynamic);
        read(saved, "skip_patience", s.patience);
        read(saved, "skipped_steps", s.skipped);
        read(saved, "skipped_in_a_row", s.skipped_in_a_row);
        s.dynamic = is_dynamic != 0;
        s.validate();
        *this = s;
    }

private:
    void grow() {
        skipped_in_a_row = 0;
        if (++good < interval || !dynamic) return;
        last.why = join(good, " finite steps");
        good = 0;
        const float larger = float(value * growth);
        if (std::isfinite(larger))
            value = larger;
        else
            last.why += join(", but ", shortest(growth), " times the scale passes fp32");
    }

    void shrink(std::string found) {
        ++skipped;
        ++skipped_in_a_row;
        good = 0;
        last.why = std::move(found);
        if (!dynamic) {
            check(patience == 0 || skipped_in_a_row < patience, "loss scale: ", last.why, "; ",
                  skipped_in_a_row, " steps in a row skipped at the fixed scale ", shortest(value),
                  value > 1 ? "; lower it or let it be dynamic" : "; lower the learning rate");
            return;
        }
        check(minimum == 0 || value > minimum, "loss scale: ", last.why, " at the smallest scale ",
              shortest(value), "; the scale is not the cause: lower the learning rate, look for "
              "NaN in data and weights, or train in bf16 or fp32");
        value = std::max(float(value * backoff), minimum);
    }

    template <class Number>
    static void read(const std::map<std::string, std::string>& saved, const char* key, Number& to) {
        const auto at = saved.find(key);
        check(at != saved.end(), "loss scale: the saved state has no ", key,
              "; take a checkpoint that was written whole");
        const char* end = at->second.data() + at->second.size();
        const auto [stop, status] = std::from_chars(at->second.data(), end, to);
        check(status == std::errc() && stop == end, "loss scale: ", key, " is saved as \"",
              at->second, "\"; wanted a number; take another checkpoint");
    }
};

/// The loss is not scaled in forward, so no scale makes it NaN and none mends it: stop at once,
/// before gradients of NaN shrink the scale step by step. Throws unless `loss` is finite.
inline void check_loss(double loss, long step) {
    check(std::isfinite(loss), "step ", step, ": loss is ", std::isnan(loss) ? "NaN" : "infinite",
          "; this is no matter of the loss scale: lower the learning rate, go back to an earlier "
          "checkpoint, or look for NaN in the weights");
}

} // namespace mpt
