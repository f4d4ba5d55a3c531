// SPDX-License-Identifier: MIT
// E4M3: chapter 2.
//
// Four exponent bits with bias 7 and three mantissa bits, but no infinity: its code is used for
// numbers, and only 0x7F is NaN. Work the three numbers out with pencil and paper. Then write the
// rounding: the distance of neighbours at x is 2^(exponent - 3), below the smallest normal number
// that of its binade. Overflow is judged after rounding: 464 is halfway from 448, whose code is
// even, to the next number that would be.
#include "exercise.hpp"

#include <algorithm>
#include <cmath>

double largest() {
    //< largest: one number
    return 448;
    //> throw exercise::todo("largest");
}
double smallest_normal() {
    //< normal: one number
    return std::ldexp(1.0, -6);
    //> throw exercise::todo("normal");
}
double smallest() {
    //< smallest: one number
    return std::ldexp(1.0, -9);
    //> throw exercise::todo("smallest");
}

double rounded(double x, bool saturating) {
    if (x == 0) return x;
    //< rounded: the step at x, the multiple of it, the overflow, about 5 lines
    const int exponent = std::isinf(x) ? 100 : std::max(std::ilogb(x), -6);
    const double step = std::ldexp(1.0, exponent - 3);
    const double y = std::isinf(x) ? x : std::nearbyint(x / step) * step;
    if (std::abs(y) <= largest()) return y;
    return saturating ? std::copysign(largest(), x) : std::nan("");
    //> throw exercise::todo("rounded");
}
