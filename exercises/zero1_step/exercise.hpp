// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include "mpt/comm/communicator.hpp" // communicator: reduce_scatter, all_gather

#include <span>

/// SGD with momentum on the sum over ranks of g: m = 0.9 m + sum, w -= rate * m. w and g (n), the
/// same w on every rank before and after; n is a multiple of the number of ranks. momentum: of this
/// rank's shard alone, (n / ranks): rank r owns elements [r n / ranks, (r + 1) n / ranks).
void step(mpt::communicator& comm, std::span<float> w, std::span<const float> g,
          std::span<float> momentum, float rate);
