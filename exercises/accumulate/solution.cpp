// SPDX-License-Identifier: MIT
// Gradient accumulation: chapter 7.
//
// A window of micro-batches is one batch that did not fit: its gradient is of the mean over all
// target tokens of the window, however they are spread. So every micro-batch begins backward with
// the same seed, and what comes is added, in fp32: a sum in bf16 stops at 256 times a summand.
#include "exercise.hpp"

std::vector<float> window_gradient(const backward& run, std::span<const long> tokens, float scale) {
    long all = 0;
    for (const long n : tokens) all += n;
    std::vector<float> sum;
    //< window: the seed, and the sum over the micro-batches, about 6 lines
    const float seed = scale / float(all);
    for (int micro = 0; micro < int(tokens.size()); ++micro) {
        const std::vector<mpt::bf16> g = run(micro, seed);
        sum.resize(g.size());
        for (std::size_t i = 0; i < g.size(); ++i) sum[i] += float(g[i]);
    }
    //> throw exercise::todo("window");
    return sum;
}
