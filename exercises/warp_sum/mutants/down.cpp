// SPDX-License-Identifier: MIT
// mutant: only lane 0 has the sum
// fails: every lane has the sum of its warp
//< shuffles
    for (int k = 16; k > 0; k /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, k);
