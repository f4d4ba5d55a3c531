// SPDX-License-Identifier: MIT
// mutant: stage 3 is 3/2 of stage 0, whatever M
// fails: stage 3
//< sent
    const int reduced = once ? 1 : M;
    if (stage == 0) return 2 * reduced * part;
    if (stage <= 2) return (reduced + 1) * part;
    return 3 * reduced * part;
