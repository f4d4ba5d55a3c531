// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include "mpt/numeric/bf16.hpp" // bf16

#include <span>

/// One step of plain SGD. grads: of the loss times `scale`. master is updated in fp32, weights are
/// its rounded copy. All three have the same size.
void step(std::span<float> master, std::span<mpt::bf16> weights, std::span<const mpt::bf16> grads,
          float scale, float rate);
