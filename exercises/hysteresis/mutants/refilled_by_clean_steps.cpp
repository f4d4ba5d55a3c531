// SPDX-License-Identifier: MIT
// mutant: every clean step refills the hysteresis
// fails: everything together
//< update
    if (overflow) {
        if (hysteresis == 1 || s.left == 1)
            s.value = std::max(s.value / 2, 1.0);
        else
            --s.left;
        s.last_overflow = s.iteration;
    } else {
        s.left = hysteresis;
        const long k = s.iteration - s.last_overflow - 1;
        if (k > 0 && k % window == 0) s.value *= 2;
    }
    ++s.iteration;
