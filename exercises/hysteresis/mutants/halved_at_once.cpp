// SPDX-License-Identifier: MIT
// mutant: every overflow halves S
// fails: overflows that are forgiven, and the one that is not
//< update
    if (overflow) {
        s.value = std::max(s.value / 2, 1.0);
        s.last_overflow = s.iteration;
    } else {
        const long k = s.iteration - s.last_overflow - 1;
        if (k > 0 && k % window == 0) s.value *= 2;
    }
    ++s.iteration;
