// SPDX-License-Identifier: MIT
// What a parameter costs in training with Adam: chapters 4 and 11.
//
// With 16-bit weights a rank keeps the weights that compute, their gradient in the same format,
// an fp32 master copy that learns, and Adam's two moments in fp32. fp32 weights need no master.
// ZeRO shards over N ranks: stage 1 what the optimizer keeps, stage 2 the gradients too, stage 3
// the weights too. Say your numbers for `ranks` ranks to yourself before you write the formula.
#include "exercise.hpp"

double adam_in_16_bits(int stage, int ranks) {
    const double N = ranks;
    //< 16: weights, gradients, and what the optimizer keeps, about 4 lines
    const double weights = stage >= 3 ? 2 / N : 2;
    const double grads = stage >= 2 ? 2 / N : 2;
    const double optimizer = stage >= 1 ? 12 / N : 12; // master, m and v
    return weights + grads + optimizer;
    //> throw exercise::todo("adam_in_16_bits");
}

double adam_in_fp32(int stage, int ranks) {
    const double N = ranks;
    //< 32: the same without a master, about 4 lines
    const double weights = stage >= 3 ? 4 / N : 4;
    const double grads = stage >= 2 ? 4 / N : 4;
    const double optimizer = stage >= 1 ? 8 / N : 8; // m and v
    return weights + grads + optimizer;
    //> throw exercise::todo("adam_in_fp32");
}

double with_accumulation() {
    //< sums: one number
    return 2 + 2 + 12 + 4;
    //> throw exercise::todo("with_accumulation");
}
