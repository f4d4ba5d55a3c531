// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include "mpt/numeric/bf16.hpp" // bf16

#include <functional>
#include <span>
#include <vector>

/// What backward of one micro-batch gives when it begins with `seed`: seed times the gradient of
/// the SUM of its tokens' losses, in bf16. Of a micro-batch without targets: zeros.
using backward = std::function<std::vector<mpt::bf16>(int micro, float seed)>;

/// The gradient of the mean loss over all tokens of the window, times scale, in fp32.
/// tokens: targets of each micro-batch. Calls `run` once for each, in order.
std::vector<float> window_gradient(const backward& run, std::span<const long> tokens, float scale);
