// SPDX-License-Identifier: MIT
/// @file loss_scale.hpp
/// Keep fp16 gradients out of underflow.                                   tier 5, needs:
/// base/error.hpp numeric/loss_scale_rule.hpp train/any_scale.hpp
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
/// See      hysteresis_scale.hpp (DeepSpeed's rules), grad_scaler.hpp (the order of the calls),
///          inspect.hpp (finite?), adamw.hpp (applies 1/S), tests/train/loss_scale_test.cpp
#pragma once
#include "mpt/base/error.hpp"              // check, join
#include "mpt/numeric/loss_scale_rule.hpp" // loss_scale_rule: growth, backoff, interval, minimum
#include "mpt/train/any_scale.hpp"         // any_scale: value, seed, skipped, last; shortest

#include <cmath>
#include <string>
#include <string_view>

namespace mpt {

struct loss_scale : any_scale, loss_scale_rule {
    int good = 0; // finite steps since S last changed

    /// A scale that never moves; 1 for formats that need none.
    static loss_scale fixed(float value) {
        loss_scale s;
        s.value = s.minimum = value;
        s.dynamic = false;
        s.validate();
        return s;
    }

    /// Call once a step, with the same `finite` on every rank; true: the step may be taken.
    /// `found` says what is not finite and where (describe() in inspect.hpp). Throws at the floor,
    /// or when a fixed scale has skipped `patience` steps in a row.
    bool update(bool finite, std::string_view found = {}) {
        count(finite, found);
        if (!dynamic) return finite;
        switch (update_scale(value, good, finite, *this)) {
        case scale_event::grew:
        case scale_event::capped:
            last.why = shortest(interval) + " finite steps";
            if (value == last.from)
                last.why += ", but " + shortest(growth) + " times the scale passes fp32";
            break;
        case scale_event::stuck:
            throw error(join("loss scale: ", last.why, " at the smallest scale ", shortest(value),
                             at_the_minimum));
        default: break;
        }
        last.to = value;
        return finite;
    }

    /// Throws one line for values that no run can work with.
    void validate() const {
        validate_common();
        check(std::isfinite(growth) && growth > 1, "loss scale: growth ", shortest(growth),
              " does not grow; the growth factor must be > 1.0, such as 2");
        check(backoff > 0 && backoff < 1, "loss scale: backoff ", shortest(backoff),
              " does not shrink; the backoff factor must be < 1.0 and above 0, such as 0.5");
        check(interval > 0, "loss scale: an interval of ", interval,
              " steps; give at least 1, such as 2000");
        check(minimum >= 0 && minimum <= value, "loss scale: a minimum of ", shortest(minimum),
              " under a scale of ", shortest(value), "; give a number from 0 to the scale");
        check(good >= 0, "loss scale: ", good, " finite steps; the tracker is never negative");
    }

    static constexpr const char* kind = "GradScaler";
    static constexpr const char* version = "1";

    /// Everything a resumed run needs, as text; GradScaler's names where it has the same thing.
    scale_words state() const {
        scale_words words = named_state(kind, version);
        words.insert({{"scale", shortest(value)},
                      {"growth_factor", shortest(growth)},
                      {"backoff_factor", shortest(backoff)},
                      {"growth_interval", shortest(interval)},
                      {"_growth_tracker", shortest(good)},
                      {"minimum_scale", shortest(minimum)},
                      {"dynamic_scale", shortest(int(dynamic))},
                      {"skip_patience", shortest(patience)},
                      {"skipped_steps", shortest(skipped)},
                      {"skipped_in_a_row", shortest(skipped_in_a_row)}});
        return words;
    }

    /// Take over what state() wrote; other keys are not looked at. Throws, and changes nothing,
    /// for the state of another kind or version, a key that is missing, a value that is no number.
    void restore(const scale_words& saved) {
        check_named(saved, kind, version);
        loss_scale s;
        s.read_pytorch(saved);
        read_saved(saved, "minimum_scale", s.minimum);
        read_saved(saved, "dynamic_scale", s.dynamic);
        read_saved(saved, "skip_patience", s.patience);
        read_saved(saved, "skipped_steps", s.skipped);
        read_saved(saved, "skipped_in_a_row", s.skipped_in_a_row);
        s.validate();
        *this = s;
    }

    /// What torch.amp.GradScaler.state_dict() holds, each value as text. It goes on as it would
    /// there: without a floor. (There, load_state_dict finds its five keys among those of state().)
    static loss_scale from_pytorch(const scale_words& state_dict) {
        check(!state_dict.empty(),
              "loss scale: The source state dict is empty, possibly because it was saved from a "
              "disabled instance of GradScaler. Begin with a new scale");
        loss_scale s;
        s.minimum = 0;
        s.read_pytorch(state_dict);
        s.validate();
        return s;
    }

private:
    void read_pytorch(const scale_words& saved) {
        read_saved(saved, "scale", value);
        read_saved(saved, "growth_factor", growth);
        read_saved(saved, "backoff_factor", backoff);
        read_saved(saved, "growth_interval", interval);
        read_saved(saved, "_growth_tracker", good);
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
