// SPDX-License-Identifier: MIT
// mutant: 3x is 3
// fails: a number is digits, and a rank is below the world size
//< number
    (void)name;
    return std::atoi(text.c_str());
