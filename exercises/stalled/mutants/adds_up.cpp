// SPDX-License-Identifier: MIT
// mutant: small steps add up in bf16
// fails: a hundred steps
//< hundred
    return 0.99;
