// SPDX-License-Identifier: MIT
// Weights that stand still: chapter 3.
//
// Above 2^p numbers of a format with m mantissa bits lie 2^(p - m) apart, below it half as far. A
// step that is smaller than half of that distance is rounded away, however often it is taken.
// At exactly half the tie goes to the even neighbour, and a power of two is even.
// Work it out for your w = 2^power in bf16 first, then write it for any.
#include "exercise.hpp"

#include <cmath>

double unnoticed_up(int power, int mantissa) {
    //< up: one line
    return std::ldexp(1.0, power - mantissa - 1);
    //> throw exercise::todo("up");
}

double unnoticed_down(int power, int mantissa) {
    //< down: one line
    return std::ldexp(1.0, power - mantissa - 2);
    //> throw exercise::todo("down");
}

double after_a_hundred() {
    //< hundred: one number
    return 1;
    //> throw exercise::todo("hundred");
}
