// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include <cstdint>
#include <string>
#include <vector>

struct tensor { // as its header says, already read from JSON
    std::string name;
    std::uint64_t bits;               // of an element
    std::vector<std::uint64_t> shape; // empty: one element
    std::uint64_t begin, end;         // bytes of the data, end not included
};

/// Throws std::runtime_error unless the tensors fill `data` bytes exactly, one behind the other,
/// and each is as long as its shape says. The message has one of these words: hole, overlap,
/// length, overflow, bytes left.
void check_layout(std::vector<tensor> tensors, std::uint64_t data);
