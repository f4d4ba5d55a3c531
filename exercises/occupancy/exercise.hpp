// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

struct multiprocessor {      // of compute capability 8.0
    int warps = 64;          // that live at once, of 32 threads
    int blocks = 32;         // that live at once
    int registers = 65536;   // a warp's are rounded up to 256, and lie in one of four parts
    int shared = 164 * 1024; // bytes; a block's are rounded up to 128, and 1024 come on top
};

/// Warps of a block of so many threads; a warp that is not full is one.
int warps_of(int threads);
/// Blocks that live at once, each limit for itself.
int by_warps(const multiprocessor& m, int threads);
int by_registers(const multiprocessor& m, int threads, int registers_a_thread);
int by_shared(const multiprocessor& m, int bytes);
/// The share of the warps that live at once.
double occupancy(const multiprocessor& m, int threads, int registers_a_thread, int bytes);
