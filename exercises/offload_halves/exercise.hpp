// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include <functional>

/// A CPU that updates parts of a model, and a copier beside it. There are two buffers, 0 and 1.
struct host {
    /// The CPU updates `part` and rounds its new weights into `buffer`. Returns when it has.
    std::function<void(int part, int buffer)> update;
    /// The copier begins to bring `buffer` to the device, as weights of `part`. Returns at once.
    std::function<void(int part, int buffer)> start_copy;
    /// Returns when nothing is copied out of `buffer` any more; at once where nothing was.
    std::function<void(int buffer)> wait;
};

/// One step of parts 0, 1, ... Returns when the device has all new weights.
void step(const host& h, int parts);
