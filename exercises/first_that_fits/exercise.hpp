// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

/// A run in 16 bits with Adam, one micro-batch a step.
struct run {
    long parameters;  // P, a multiple of ranks
    long whole;       // parameters of the units that are whole at a time, where units come and go
    long activations; // bytes of a device
    long budget;      // bytes of a device
    int ranks;
};

/// In the order of what they cost.
enum technique { ddp, zero1, zero2, zero3, offloaded, none };

/// Bytes of a device, all of them. zero2 and offloaded: with the gradients of `whole`; zero3: with
/// its gradients and weights. offloaded: one device, states and other gradients on the host.
long bytes(const run& r, technique t);
/// The first in the order above that fits into the budget, or none.
technique first_that_fits(const run& r);
/// The least number of ranks with which zero3 fits, by P / N parameters each, rounded up;
/// 0: no number does.
int ranks_needed(const run& r);
