// SPDX-License-Identifier: MIT
// mutant: S grows after `window` clean steps
// fails: growth, a step late
//< update
    if (overflow) {
        if (hysteresis == 1 || s.left == 1)
            s.value = std::max(s.value / 2, 1.0);
        else
            --s.left;
        s.last_overflow = s.iteration;
    } else {
        const long k = s.iteration - s.last_overflow;
        if (k % window == 0) {
            s.left = hysteresis;
            s.value *= 2;
        }
    }
    ++s.iteration;
