// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

#include "mpt/comm/communicator.hpp" // communicator: rank, size, start_send, recv

#include <span>

/// x becomes the sum over all ranks. Its size is a multiple of comm.size(); room holds a chunk.
void ring_all_reduce(mpt::communicator& comm, std::span<float> x, std::span<float> room);
