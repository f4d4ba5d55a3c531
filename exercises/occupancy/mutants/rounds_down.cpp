// SPDX-License-Identifier: MIT
// mutant: a warp that is not full is left out
// fails: warps of a block
//< warps
    return std::max(1, threads / 32);
