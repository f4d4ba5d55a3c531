// SPDX-License-Identifier: MIT
// mutant: every micro-batch has the same weight, whatever its tokens
// fails: the scale over the tokens of the whole window
//< seed
    return scale / (float(sum) / float(tokens.size()));
