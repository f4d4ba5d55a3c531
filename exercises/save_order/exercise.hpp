// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo

#include <string>

/// A disk with a memory of its own: what is written is on it for certain only after a flush, and a
/// name only after the folder was flushed.
struct disk {
    virtual ~disk() = default;
    virtual void write(const std::string& name,
                       const std::string& bytes) = 0; // a new file, or over it
    virtual void flush(const std::string& name) = 0;  // its bytes
    virtual void rename(const std::string& from, const std::string& to) = 0; // over what is there
    virtual void flush_folder() = 0;                                         // names
    virtual void remove(const std::string& name) = 0;
};

/// Replace the file `name` by `bytes`: after a crash at any moment it holds the old bytes or the
/// new ones, whole. When save() returns the new ones are there for certain.
void save(disk& d, const std::string& name, const std::string& bytes);
