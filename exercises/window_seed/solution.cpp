// SPDX-License-Identifier: MIT
// The first exercise, of chapter 1: is everything in place?
//
// The loss of a step is the mean over all target tokens of its window: over every micro-batch, on
// every rank. The gradient of that mean, times the loss scale, is scale / tokens for each token's
// loss. One line below is not written yet; micro-batches without any target are legal, a window
// without any is not.
#include "exercise.hpp"

#include <stdexcept>

float window_seed(float scale, std::span<const long> tokens) {
    long sum = 0;
    for (const long n : tokens) sum += n;
    if (sum == 0) throw std::invalid_argument("window: no target tokens; nothing can be learnt");
    //< seed: one line
    return float(double(scale) / double(sum));
    //> throw exercise::todo("seed");
}
