// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

#include <vector>

/// The samples that a rank is shown in one window, in the order in which it is shown them:
/// `micros` micro-batches of `rows` rows. A sample is named by its number in the joined batch, 0
/// to ranks * micros * rows - 1; micro-batch k of all ranks together is what one rank with ranks *
/// rows rows would be shown as its micro-batch k.
std::vector<long> samples(int rank, int ranks, int micros, int rows);
