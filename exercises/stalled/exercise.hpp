// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

/// Of a weight w = 2^power in a format with `mantissa` bits behind the point, rounded to nearest
/// with ties to even: the largest step that w + step does not notice, and w - step.
double unnoticed_up(int power, int mantissa);
double unnoticed_down(int power, int mantissa);
/// Steps of 1e-4 down from 1.0 in bf16 (7 bits): where is the weight after a hundred of them?
double after_a_hundred();
