// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include <map>
#include <string>

struct place {
    int rank = 0;       // of this process
    int world_size = 1; // processes of the run
};

/// Where this process stands, by its environment variables. Throws std::exception with one line
/// where they do not say so.
place find_place(const std::map<std::string, std::string>& variables);
