// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include "mpt/train/hysteresis_scale.hpp"

#include <string>

using namespace grade;

namespace {

// S after each step, beside the library's.
void trace(const std::string& overflows, int hysteresis, int window) {
    scale s;
    s.left = hysteresis;
    mpt::hysteresis_scale right;
    right.value = 65536;
    right.hysteresis = hysteresis;
    right.window = window;
    right.raise_error_at_min_scale = false;
    for (std::size_t i = 0; i < overflows.size(); ++i) {
        const bool overflow = overflows[i] == '1';
        update(s, overflow, hysteresis, window);
        right.update(!overflow);
        equals(mpt::join("S after step ", i + 1, " of ", overflows.substr(0, i + 1),
                         " (1: overflow), ", "hysteresis ", hysteresis, ", window ", window),
               s.value, double(right.value), "DeepSpeed's rules, in the order of the statement");
    }
}

} // namespace

PART("overflows that are forgiven, and the one that is not", 3) {
    const int h = int(exercise::parameter("hysteresis"));
    trace(std::string(std::size_t(3 * h), '1'), h, 4);
    trace("1111", 1, 4);
}
PART("growth, a step late", 3) {
    const int w = int(exercise::parameter("window"));
    trace(std::string(std::size_t(4 * w + 3), '0'), 2, w);
    trace("1" + std::string(std::size_t(3 * w + 3), '0'), 2, w);
}
PART("everything together", 2) {
    trace("111000001101000000000", 2, 4);
    for (int round = 0; round < 40; ++round) {
        std::string overflows;
        for (int i = 0; i < 60; ++i) overflows += any().between(0, 4) == 0 ? '1' : '0';
        trace(overflows, any().between(1, 4), any().between(2, 6));
    }
}
