// SPDX-License-Identifier: MIT
// mutant: the master weights are forgotten
// fails: 16-bit weights at every stage
//< 16
const double weights = stage >= 3 ? 2 / N : 2;
const double grads = stage >= 2 ? 2 / N : 2;
const double optimizer = stage >= 1 ? 8 / N : 8;
return weights + grads + optimizer;
