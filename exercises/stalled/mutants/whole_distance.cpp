// SPDX-License-Identifier: MIT
// mutant: the distance, not half of it
// fails: up
//< up
    return std::ldexp(1.0, power - mantissa);
