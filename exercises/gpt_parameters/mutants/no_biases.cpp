// SPDX-License-Identifier: MIT
// mutant: 12 C C, as it is often said
// fails: a block
//< block
    return 12 * s.channels * s.channels;
