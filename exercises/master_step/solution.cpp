// SPDX-License-Identifier: MIT
// Master weights: chapter 4.
//
// Weights that compute are bf16, and so are gradients, which still hold the loss scale. The weights
// that learn are fp32: they take the step, and the bf16 weights are their rounded copy.
// Nothing may be rounded to bf16 on the way: not the gradient divided by the scale, not the step.
#include "exercise.hpp"

void step(std::span<float> master, std::span<mpt::bf16> weights, std::span<const mpt::bf16> grads,
          float scale, float rate) {
    const float factor = 1 / scale;
    for (std::size_t i = 0; i < master.size(); ++i) {
        //< step: widen, unscale, update, round, about 3 lines
        const float g = float(grads[i]) * factor;
        master[i] -= rate * g;
        weights[i] = mpt::bf16(master[i]);
        //> throw exercise::todo("step");
    }
}
