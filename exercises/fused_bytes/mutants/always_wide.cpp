// SPDX-License-Identifier: MIT
// mutant: gradients are thought to be fp32 after the first question, whether unscaled or not
// fails: a kernel for each operation
//< separate
    const int g = u.gradient, unscale = u.scaled ? g + 4 : 0, clip = u.clipped ? 4 + 4 + 4 : 0;
    return g + unscale + clip + 2 * (4 + 4 + 4) + (12 + 4) + (4 + 2);
