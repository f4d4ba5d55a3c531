// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

#include <vector>

struct schedule {
    double rate = 6e-4, least = 6e-5;
    long warmup = 9; // steps with a rate below `rate`
    long decay = 0;  // the step from which on it is `least`
};

/// The rate of the step after `applied` ones.
double rate_of(const schedule& s, long applied);

/// The rates of attempted steps, of which some are skipped (finite[i] false): what is used is
/// asked of rate_of for every attempt.
std::vector<double> rates(const schedule& s, const std::vector<bool>& finite);
