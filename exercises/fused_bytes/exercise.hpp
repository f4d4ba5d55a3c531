// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

struct update {   // of 16-bit weights, with an fp32 master and AdamW's moments m and v
    int gradient; // bytes of a gradient as backward left it: 2 or 4
    bool scaled;  // there is a loss scale to divide by
    bool clipped; // the gradients' norm is taken, and they are shortened
};

/// Bytes a parameter, read and written, of one kernel for each operation.
int separate(const update& u);
/// ... of inspect and AdamW, in which all the rest is done.
int fused(const update& u);
/// Milliseconds that so many bytes a parameter take at `rate` bytes a second.
double milliseconds(double parameters, int bytes, double rate);
