// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

/// Bytes that a rank of N keeps of each of P parameters between steps, whole shards assumed.
/// stage 0: every rank all; 1: optimizer sharded; 2: gradients too; 3: weights too.
double adam_in_16_bits(int stage, int ranks);
/// The same with fp32 weights, which are their own master.
double adam_in_fp32(int stage, int ranks);
/// Of one rank and 16-bit weights: with fp32 sums of gradients over several micro-batches.
double with_accumulation();
