// SPDX-License-Identifier: MIT
// The loss scale of dynamic loss scaling: chapter 5.
//
// After every step the scale learns whether all gradients were finite.
//   - an overflow: S is halved, but not below your `minimum`; the count of clean steps begins
//     again; the step is skipped, and counted as skipped
//   - no overflow: a clean step more; when `interval` clean steps have come together, S doubles and
//     the count begins again, unless S would not be finite: then S stays
#include "exercise.hpp"

#include <algorithm>
#include <cmath>

bool update(scale& s, bool finite) {
    const int interval = int(exercise::parameter("interval"));
    const float minimum = float(exercise::parameter("minimum"));
    //< update: S, clean and skipped after this step, about 10 lines
    if (!finite) {
        s.value = std::max(s.value / 2, minimum);
        s.clean = 0;
        ++s.skipped;
        return false;
    }
    if (++s.clean == interval) {
        s.clean = 0;
        if (std::isfinite(s.value * 2)) s.value *= 2;
    }
    return true;
    //> throw exercise::todo("update");
}
