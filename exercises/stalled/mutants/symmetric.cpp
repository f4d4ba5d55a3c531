// SPDX-License-Identifier: MIT
// mutant: down is taken as up
// fails: down
//< down
    return std::ldexp(1.0, power - mantissa - 1);
