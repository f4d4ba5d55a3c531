// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

struct model {
    double parameters; // of all matrices that a token passes
    int layers, channels, context;
};

/// Floating-point operations of forward and backward a token; a multiply-add counts as two.
double operations_a_token(const model& m);
/// Forward is run again for all blocks: what it costs now.
double with_checkpointing(const model& m);
/// Model FLOPs utilisation: the share of the machine's `peak` operations a second that `tokens` a
/// second need, recomputation not counted.
double mfu(const model& m, double tokens, double peak);
