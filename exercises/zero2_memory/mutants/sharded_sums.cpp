// SPDX-License-Identifier: MIT
// mutant: reduced once, the sums are thought to be in N parts
// fails: kept
//< kept
    return 2 + (2 + 12) / N + (micros > 1 ? 4 / N : 0);
