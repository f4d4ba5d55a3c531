// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <cmath>
#include <limits>

using namespace grade;

PART("an overflow halves the scale and skips the step", 3) {
    scale s;
    s.value = std::ldexp(1.0f, any().between(10, 20));
    s.clean = 2;
    const scale before = s;
    equals("is the step taken after an overflow", update(s, false), false,
           "its gradients hold infinity: applied, they would make NaN of the weights");
    equals("S after an overflow", s.value, before.value / 2, "a smaller S makes smaller gradients");
    equals("clean steps after an overflow", s.clean, 0, "they have to come together");
    equals("skipped steps", s.skipped, before.skipped + 1, "a log has to say how many were lost");
}

PART("the scale doubles after `interval` clean steps, not before", 3) {
    const long interval = exercise::parameter("interval");
    scale s;
    for (int round = 0; round < 3; ++round)
        for (long k = 1; k <= interval; ++k) {
            equals("is a clean step taken", update(s, true), true, "nothing is wrong with it");
            equals(mpt::join("S after ", round * interval + k, " clean steps, interval ", interval),
                   s.value, 1024 * std::ldexp(1.0f, round + (k == interval)),
                   "S grows when `interval` clean steps have come together, and the count begins "
                   "again");
        }
    equals("skipped steps", s.skipped, 0L, "none was");
}

PART("an overflow between clean steps begins the count again", 2) {
    const long interval = exercise::parameter("interval");
    scale s;
    for (long k = 1; k < interval; ++k) update(s, true);
    update(s, false);
    for (long k = 1; k < interval; ++k) update(s, true);
    equals("S", s.value, 512.0f,
           "the clean steps before the overflow and after it have not come together");
}

PART("the scale stays between its minimum and what is finite", 2) {
    const float minimum = float(exercise::parameter("minimum"));
    scale s;
    s.value = 2 * minimum;
    for (int k = 0; k < 3; ++k) update(s, false);
    equals("S after three overflows from twice the minimum", s.value, minimum,
           "below it the gradients divided by S overflow themselves");
    s = {};
    s.value = 0x1p127f;
    for (long k = 0; k < 2 * exercise::parameter("interval"); ++k) update(s, true);
    equals("S that cannot double any more", s.value, 0x1p127f,
           "infinity times a loss is no gradient");
    equals("clean steps", s.clean, 0, "the count begins again whether or not S could grow");
    s = {};
    s.value = 0x1.8p126f;
    for (long k = 0; k < exercise::parameter("interval"); ++k) update(s, true);
    equals("S that can double once more", s.value, 0x1.8p127f, "twice this is finite still");
}
