// SPDX-License-Identifier: MIT
// The memory of ZeRO-2: chapter 23.
//
// A unit is cut into shards of equal size, rounded up (mpt rounds on, to 256 parameters); what
// the last ranks have too much is padding. Backward goes from the last block to the first. The
// embedding's buffer is there from the start, since the tied head writes into it first; a block's
// until it has travelled.
//
// What stays: 2 bytes of weights, 12 of master and moments in N parts, and gradients. One
// micro-batch a window: 2 bytes in N parts. More of them: reduced every time, the same and their
// fp32 sum in N parts; reduced once, an fp32 sum of all, and no other gradients. Say your numbers
// for `ranks` ranks to yourself first.
#include "exercise.hpp"

#include <algorithm>

long owned(long n, int rank, int ranks) {
    //< owned: about 2 lines
    const long shard = (n + ranks - 1) / ranks;
    return std::clamp(n - rank * shard, 0L, shard);
    //> throw exercise::todo("owned");
}

long whole(long U, long B, int blocks, int ahead) {
    //< whole: one line
    return U + std::min(blocks, 1 + ahead) * B;
    //> throw exercise::todo("whole");
}

double kept(int ranks, int micros, bool once) {
    const double N = ranks;
    //< kept: about 3 lines
    if (micros > 1 && once) return 2 + 12 / N + 4;
    const double sums = micros > 1 ? 4 / N : 0;
    return 2 + (2 + 12) / N + sums;
    //> throw exercise::todo("kept");
}
