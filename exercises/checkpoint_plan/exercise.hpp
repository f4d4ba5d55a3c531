// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

struct costs {
    int blocks;
    long room;  // bytes of all that a block computes
    long input; // bytes of its input alone, less than room
};

/// Bytes that are held at most with segments of k blocks: the input of every segment but the last,
/// and the rooms of one segment.
long held(const costs& c, int k);
/// The segment size that holds least; of several the largest, which runs fewest blocks again.
int best(const costs& c);
/// Blocks that run forward twice with segments of k: all but those of the last segment.
int again(const costs& c, int k);
