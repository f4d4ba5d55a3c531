// SPDX-License-Identifier: MIT
// mutant: 6 P of all parameters, the places' table among them, and no attention
// fails: a token
//< operations
    return 6 * double(parameters(s));
