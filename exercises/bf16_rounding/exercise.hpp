// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

#include <cstdint>

/// The code of a bf16 number (the upper half of a float's) that x rounds to.
/// mode 0: to nearest, ties to even; 1: toward zero; 2: toward plus infinity.
/// NaN stays NaN, with its sign; infinity stays infinity. A number too large becomes infinity where
/// its mode rounds away from zero, else the largest bf16.
std::uint16_t to_bf16(float x, int mode);
