// SPDX-License-Identifier: MIT
// mutant: backward is forgotten
// fails: forward and backward
//< operations
    return 2 * m.parameters + 2.0 * m.layers * m.context * m.channels;
