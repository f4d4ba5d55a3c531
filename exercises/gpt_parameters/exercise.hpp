// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

struct shape { // of a GPT-2: head tied to the embedding, biases everywhere, layer norms
    long layers, channels, context, vocabulary;
};

/// Parameters of one block.
long of_a_block(const shape& s);
/// Parameters of the model.
long parameters(const shape& s);
/// Floating-point operations of forward and backward for a token of a full context.
double operations_a_token(const shape& s);
/// Tokens a second on a machine of `peak` operations a second of which a run uses the share `mfu`.
double tokens_a_second(const shape& s, double mfu, double peak);
