// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

#include <cstdint>
#include <span>

/// codes[i] = round(127 x[i] / absmax of its block), ties to even; absmax has one entry for each
/// block of `block` numbers, the last of which may be shorter. A block of zeros has codes 0.
void quantize(std::span<std::int8_t> codes, std::span<float> absmax, std::span<const float> x,
              int block);
/// x[i] = codes[i] / 127 * absmax of its block.
void restore(std::span<float> x, std::span<const std::int8_t> codes, std::span<const float> absmax,
             int block);
