// SPDX-License-Identifier: MIT
// mutant: weights are published every micro-batch
// fails: stages 1 and 2
//< sent
    const int reduced = once ? 1 : M;
    if (stage <= 2) return 2 * reduced * part;
    return (2 * M + reduced) * part;
