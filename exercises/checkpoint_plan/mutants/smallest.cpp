// SPDX-License-Identifier: MIT
// mutant: of several the smallest
// fails: the best segments
//< best
    int least = 1;
    for (int k = 2; k <= c.blocks; ++k)
        if (held(c, k) < held(c, least)) least = k;
    return least;
