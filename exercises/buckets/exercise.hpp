// SPDX-License-Identifier: MIT
// What answer.cpp defines and the grader calls.
#pragma once
#include "exercises/harness/todo.hpp" // todo, parameter

#include <functional>
#include <vector>

/// Layers of a flat buffer, first to last: layer k has sizes[k] elements, and backward makes their
/// gradients from the last layer to the first.
struct bucket {
    int first, last; // layers, both included
    bool operator==(const bucket&) const = default;
};

/// Buckets in the order in which they fill: each as many layers as fit in `limit` elements, at
/// least one.
std::vector<bucket> plan(const std::vector<int>& sizes, int limit);

/// Called when a layer's gradient is there, on every rank in the same order of layers. `launch`
/// begins the all_reduce of a bucket: as soon as its last gradient is there, in the order of the
/// plan.
class launcher {
public:
    launcher(std::vector<bucket> plan, std::function<void(const bucket&)> launch);
    void ready(int layer);

private:
    std::vector<bucket> plan_;
    std::function<void(const bucket&)> launch_;
    std::vector<int> missing_; // gradients of each bucket that are not there yet
    std::size_t next_ = 0;     // the bucket to launch next
};
