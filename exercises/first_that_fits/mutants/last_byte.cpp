// SPDX-License-Identifier: MIT
// mutant: what fits exactly is refused
// fails: the first that fits
//< first
    for (const technique t : {ddp, zero1, zero2, zero3, offloaded})
        if (bytes(r, t) < r.budget) return t;
    return none;
