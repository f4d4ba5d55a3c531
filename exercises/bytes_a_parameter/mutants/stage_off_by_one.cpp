// SPDX-License-Identifier: MIT
// mutant: stage 1 shards the gradients as well
// fails: 16-bit weights at every stage
//< 16
const double weights = stage >= 3 ? 2 / N : 2;
const double grads = stage >= 1 ? 2 / N : 2;
const double optimizer = stage >= 1 ? 12 / N : 12;
return weights + grads + optimizer;
