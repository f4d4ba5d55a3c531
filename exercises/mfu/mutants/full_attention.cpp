// SPDX-License-Identifier: MIT
// mutant: the causal half is counted as if it were computed
// fails: forward and backward
//< operations
    return 3 * (2 * m.parameters + 4.0 * m.layers * m.context * m.channels);
