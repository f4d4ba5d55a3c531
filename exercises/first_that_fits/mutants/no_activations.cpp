// SPDX-License-Identifier: MIT
// mutant: states only, as the well-known formulas say
// fails: bytes of each technique
//< bytes
    if (t == ddp) return 16 * P;
    if (t == zero1) return 4 * P + 12 * P / N;
    if (t == zero2) return 2 * P + 14 * P / N + 2 * r.whole;
    if (t == zero3) return 16 * P / N + 4 * r.whole;
    return 2 * P + 2 * r.whole;
