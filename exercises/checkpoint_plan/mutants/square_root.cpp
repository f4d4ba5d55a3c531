// SPDX-License-Identifier: MIT
// mutant: the square root of the number of blocks
// fails: the best segments
//< best
    int k = 1;
    while ((k + 1) * (k + 1) <= c.blocks) ++k;
    return k;
