// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

/// Elements that a rank of N sends in one window of M micro-batches, for each parameter.
/// stage 0: all_reduce; 1 and 2: reduce_scatter of gradients, all_gather of weights; 3: units are
/// gathered for forward and again for backward of every micro-batch, gradients reduce-scattered.
/// once: gradients are added up on the rank and reduced at the window's end; else each micro-batch.
double sent(int stage, bool once, int M, int N);
