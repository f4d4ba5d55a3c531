// SPDX-License-Identifier: MIT
// mutant: every lane reads all numbers of its warp
// fails: no shared memory, no barrier, each number read once
//< shuffles
    sum = 0;
    for (unsigned k = 0; k < 32; ++k) sum += x[i / 32 * 32 + k];
