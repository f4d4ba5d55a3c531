// SPDX-License-Identifier: MIT
// mutant: judged before rounding
// fails: what is too large
//< rounded
    if (std::abs(x) > largest()) return saturating ? std::copysign(largest(), x) : std::nan("");
    const int exponent = std::max(std::ilogb(x), -6);
    const double step = std::ldexp(1.0, exponent - 3);
    return std::nearbyint(x / step) * step;
