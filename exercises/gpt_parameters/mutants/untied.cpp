// SPDX-License-Identifier: MIT
// mutant: the head is counted as a matrix of its own
// fails: the model
//< parameters
    const long outside = (2 * s.vocabulary + s.context + 2) * s.channels;
    return outside + s.layers * of_a_block(s);
