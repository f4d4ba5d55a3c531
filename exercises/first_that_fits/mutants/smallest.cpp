// SPDX-License-Identifier: MIT
// mutant: the one that holds least, whatever it costs
// fails: the first that fits
//< first
    technique least = ddp;
    for (const technique t : {zero1, zero2, zero3, offloaded})
        if (bytes(r, t) < bytes(r, least)) least = t;
    return bytes(r, least) <= r.budget ? least : none;
