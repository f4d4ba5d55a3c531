// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include <span>

struct adamw {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
    long applied = 0; // steps before this one; the step counts itself
};

/// One step. g: of the loss times 1 / factor: factor unscales and clips, in fp32. All spans have
/// one size; m and v are 0 before the first step.
void step(adamw& rule, std::span<float> p, std::span<float> m, std::span<float> v,
          std::span<const float> g, double factor, double rate);
