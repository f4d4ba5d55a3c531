// SPDX-License-Identifier: MIT
// mutant: numbers below the smallest normal are 0
// fails: rounding
//< rounded
    const int exponent = std::isinf(x) ? 100 : std::ilogb(x);
    const double step = std::ldexp(1.0, exponent - 3);
    const double y = std::isinf(x) ? x : std::nearbyint(x / step) * step;
    if (std::abs(y) < smallest_normal()) return 0;
    if (std::abs(y) <= largest()) return y;
    return saturating ? std::copysign(largest(), x) : std::nan("");
