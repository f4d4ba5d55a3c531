// SPDX-License-Identifier: MIT
// A loss scale with hysteresis, as DeepSpeed moves it: chapter 5.
//
//   overflow     when `left` is 1, or the setting itself is, S is halved, but not below 1; else
//                `left` falls by one and S stays.
//                The iteration is remembered as last_overflow
//   no overflow  k = iteration - last_overflow - 1 clean steps came before this one; when k is
//                above 0 and a multiple of `window`, S doubles and `left` is `hysteresis` again
//   either       the iteration goes up by one, last of all
// So S grows a step later than PyTorch's: the first clean step after an overflow is k = 0.
#include "exercise.hpp"

#include <algorithm>

void update(scale& s, bool overflow, int hysteresis, int window) {
    //< update: the two cases, and the iteration, about 12 lines
    if (overflow) {
        if (hysteresis == 1 || s.left == 1)
            s.value = std::max(s.value / 2, 1.0);
        else
            --s.left;
        s.last_overflow = s.iteration;
    } else {
        const long k = s.iteration - s.last_overflow - 1;
        if (k > 0 && k % window == 0) {
            s.left = hysteresis;
            s.value *= 2;
        }
    }
    ++s.iteration;
    //> throw exercise::todo("update");
}
