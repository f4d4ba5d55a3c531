// SPDX-License-Identifier: MIT
// mutant: fp32 weights are given a master of their own
// fails: fp32 weights at every stage
//< 32
const double weights = stage >= 3 ? 4 / N : 4;
const double grads = stage >= 2 ? 4 / N : 4;
const double optimizer = stage >= 1 ? 12 / N : 12;
return weights + grads + optimizer;
