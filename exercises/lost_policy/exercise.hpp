// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include <span>
#include <thread>
#include <vector>

enum class precision { fp32, bf16 };

/// The sum of products of a and b, each operand rounded to bf16 first where `how` says so; the sum
/// is fp32. Computed by `threads` threads, each a run of the elements; partial sums are added in
/// order.
float dot(std::span<const float> a, std::span<const float> b, precision how, int threads);
