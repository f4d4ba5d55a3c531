// SPDX-License-Identifier: MIT
// mutant: the highest exponent is kept for infinity
// fails: the three numbers
//< largest
    return 240;
