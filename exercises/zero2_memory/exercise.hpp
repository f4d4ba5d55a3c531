// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

/// Of a unit of n parameters in equal shards, the last ones padded: how many parameters, padding
/// left out, lie in the shard of `rank`.
long owned(long n, int rank, int ranks);
/// Gradients that are whole at a time in one backward, at most. U: of the embedding; B: of each of
/// `blocks` blocks; ahead: how many blocks may travel while another one's gradients are made.
long whole(long U, long B, int blocks, int ahead);
/// Bytes a parameter that a rank keeps from one window of `micros` micro-batches to the next and
/// through it: weights, gradients, fp32 sums over the window, master, moments. Padding left out.
/// once: gradients are added up on the rank and reduced at the window's end; else each micro-batch.
double kept(int ranks, int micros, bool once);
