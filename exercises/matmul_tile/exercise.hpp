// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

/// c (m,n) = a (m,k) b (k,n), all by rows and in device memory; m and n 1 or more, k 0 or more.
/// Blocks of tile x tile threads, a thread an element of c.
void product(float* c, const float* a, const float* b, int m, int n, int k, int tile);
