// SPDX-License-Identifier: MIT
// mutant: tokens over the scale
// fails: the scale over the tokens of the whole window
//< seed
    return float(double(sum) / double(scale));
