// SPDX-License-Identifier: MIT
// A plan for checkpointing: chapter 9.
//
// L blocks are cut into segments of k (the last may be shorter). A segment keeps its input and,
// while its backward runs, the rooms of its blocks; the last segment comes straight after forward,
// so its input need not be kept beside, and nothing in it is run again. Few long segments hold
// many rooms, many short ones many inputs. Your model has `blocks` blocks.
#include "exercise.hpp"

int segments(const costs& c, int k) { return (c.blocks + k - 1) / k; }

long held(const costs& c, int k) {
    //< held: about 2 lines
    return (segments(c, k) - 1) * c.input + k * c.room;
    //> throw exercise::todo("held");
}

int best(const costs& c) {
    //< best: about 4 lines
    int least = 1;
    for (int k = 2; k <= c.blocks; ++k)
        if (held(c, k) <= held(c, least)) least = k;
    return least;
    //> throw exercise::todo("best");
}

int again(const costs& c, int k) {
    //< again: about 2 lines
    return (segments(c, k) - 1) * k;
    //> throw exercise::todo("again");
}
