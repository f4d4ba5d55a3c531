// SPDX-License-Identifier: MIT
// mutant: a rank sends to itself, too
// fails: all_reduce
//< sent
    (void)part;
    const int reduced = once ? 1 : M;
    if (stage == 0) return 2 * reduced;
    if (stage <= 2) return reduced + 1;
    return 2 * M + reduced;
