// SPDX-License-Identifier: MIT
// The learning rate: chapter 8.
//
//   it < w          rate (it + 1) / (w + 1)                     rises, and is never 0
//   w <= it <= d    least + (rate - least) (1 + cos(pi (it - w) / (d - w))) / 2
//   it > d          least
// `it` counts steps that were applied. A step that overflows is attempted and skipped: the schedule
// must not run ahead of the weights, or the first step that counts is taken at the wrong rate.
// Your warm-up is `warmup` steps long.
#include "exercise.hpp"

#include <cmath>

double rate_of(const schedule& s, long applied) {
    const double pi = 3.14159265358979323846;
    //< rate: the three cases, about 5 lines
    if (applied < s.warmup) return s.rate * double(applied + 1) / double(s.warmup + 1);
    if (applied > s.decay) return s.least;
    const double done = double(applied - s.warmup) / double(s.decay - s.warmup);
    return s.least + (s.rate - s.least) * (1 + std::cos(pi * done)) / 2;
    //> (void)pi;
    //> throw exercise::todo("rate");
}

std::vector<double> rates(const schedule& s, const std::vector<bool>& finite) {
    std::vector<double> used;
    //< rates: about 5 lines
    long applied = 0;
    for (const bool ok : finite) {
        used.push_back(rate_of(s, applied));
        if (ok) ++applied;
    }
    //> throw exercise::todo("rates");
    return used;
}
