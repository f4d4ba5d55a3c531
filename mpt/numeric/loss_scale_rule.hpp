// SPDX-License-Identifier: MIT
/// @file loss_scale_rule.hpp
/// One update of a dynamic loss scale, for host code and for kernels.      tier 1, needs:
/// base/qualifiers.hpp
///
/// Idea     GradScaler's rule, with a floor, written once: train/loss_scale.hpp calls it on the
///          host, train/device_scale.hpp where the scale lies in device memory. They cannot differ.
/// Formula  overflow: S = max(S * backoff, minimum), good = 0
///          finite:   ++good;  good == interval -> S *= growth where that is finite, good = 0
/// Breaks   inverse by fp32 division, which some compilers shorten to an approximation; it is
///          float(1 / double(S)), as PyTorch has it. good == interval asked as there: an interval
///          that was lowered below `good` is never met again; here S grows at the next finite step
/// Source   PyTorch, torch._amp_update_scale_ (its products are in fp64 as well)
/// See      train/loss_scale.hpp, train/device_scale.hpp, tests/numeric/loss_scale_rule_test.cpp
#pragma once
#include "mpt/base/qualifiers.hpp" // MPT_HOST_DEVICE

namespace mpt {

struct loss_scale_rule {
    double growth = 2.0;  // what S is multiplied with after `interval` finite steps
    double backoff = 0.5; // ... and after an overflow
    int interval = 2000;  // finite steps in a row before S grows
    float minimum = 1.0f; // floor: one more overflow there is an error. 0: none, as GradScaler
};

enum class scale_event {
    none,   // a finite step like any other
    grew,   // S *= growth
    capped, // it would have grown past fp32: S stays
    shrank, // S *= backoff, or the minimum
    stuck   // an overflow at the minimum: S stays, and is not the cause
};

/// Moves S and `good`, the finite steps since S last changed, by one step.
MPT_HOST_DEVICE inline scale_event update_scale(float& scale, int& good, bool finite,
                                                const loss_scale_rule& rule) {
    if (!finite) {
        good = 0;
        if (rule.minimum > 0 && scale <= rule.minimum) return scale_event::stuck;
        const float smaller = float(double(scale) * rule.backoff);
        scale = smaller > rule.minimum ? smaller : rule.minimum;
        return scale_event::shrank;
    }
    if (good < rule.interval - 1) {
        ++good;
        return scale_event::none;
    }
    good = 0;
    const double larger = double(scale) * rule.growth;
    if (!(larger < 0x1.ffffffp127)) return scale_event::capped; // rounds to infinity from there on
    scale = float(larger);
    return scale_event::grew;
}

/// What kernels read and write where the scale lives on the device; 24 bytes.
struct scale_state {
    float scale;        // S: backward starts from S / tokens
    float inverse;      // the optimizer multiplies gradients with it, in fp32
    float found_inf;    // not 0: some gradient is not finite, and the optimizer changes nothing
    int growth_tracker; // finite steps since S last changed
    int skipped;        // steps lost to overflow
    int stuck;          // of them at the minimum: the host throws when it reads this
};

MPT_HOST_DEVICE inline float inverse_scale(float scale) { return float(1.0 / double(scale)); }

/// Once a step, by one thread, after everybody has read found_inf.
MPT_HOST_DEVICE inline void update_scale(scale_state& s, const loss_scale_rule& rule) {
    const bool finite = s.found_inf == 0;
    const scale_event e = update_scale(s.scale, s.growth_tracker, finite, rule);
    s.skipped += finite ? 0 : 1;
    s.stuck += e == scale_event::stuck ? 1 : 0;
    s.inverse = inverse_scale(s.scale);
    s.found_inf = 0;
}

} // namespace mpt
