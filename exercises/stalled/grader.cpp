// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

using namespace grade;

namespace {

// The claim, tried: the step itself is not noticed, the next larger one is.
template <class T>
void tried(int power, double step, double sign, const char* which) {
    const float w = std::ldexp(1.0f, power);
    const auto moved = [&](double by) { return float(T(float(w + sign * by))); };
    equals(mpt::join(which, ": 2^", power, " moved by your ", step, " in ", mpt::name<T>()),
           moved(step), w, "a step that the weight does not notice leaves it where it is");
    const float more = std::nextafter(float(w + sign * step), sign > 0 ? HUGE_VALF : -HUGE_VALF);
    equals(mpt::join(which, ": does 2^", power, " notice the next larger step in ", mpt::name<T>()),
           float(T(more)) != w, true, "the largest step was asked for");
}

} // namespace

PART("up", 2) {
    for (const int power : {int(exercise::parameter("power")), 0, 3}) {
        tried<mpt::bf16>(power, unnoticed_up(power, 7), 1, "up");
        tried<mpt::fp16>(power, unnoticed_up(power, 10), 1, "up");
    }
}
PART("down", 2) {
    for (const int power : {int(exercise::parameter("power")), 0, 3}) {
        tried<mpt::bf16>(power, unnoticed_down(power, 7), -1, "down");
        tried<mpt::fp16>(power, unnoticed_down(power, 10), -1, "down");
    }
}
PART("a hundred steps", 2) {
    mpt::bf16 w(1.0f);
    for (int k = 0; k < 100; ++k) w = mpt::bf16(float(w) - 1e-4f);
    equals("the weight after a hundred steps of 1e-4 down from 1", after_a_hundred(),
           double(float(w)), "1e-4 is less than what a weight of 1 notices");
}
