// SPDX-License-Identifier: MIT
// mutant: blocks that have travelled still count
// fails: whole for a while
//< whole
    return U + blocks * B;
