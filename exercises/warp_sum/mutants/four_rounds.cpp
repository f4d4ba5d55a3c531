// SPDX-License-Identifier: MIT
// mutant: four rounds
// fails: every lane has the sum of its warp
//< shuffles
    for (int k = 8; k > 0; k /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, k);
