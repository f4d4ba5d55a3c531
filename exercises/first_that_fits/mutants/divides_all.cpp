// SPDX-License-Identifier: MIT
// mutant: activations are divided, too
// fails: ranks that zero3 needs
//< ranks
    if (r.budget <= 0) return 0;
    return int((16 * r.parameters + r.activations + 4 * r.whole + r.budget - 1) / r.budget);
