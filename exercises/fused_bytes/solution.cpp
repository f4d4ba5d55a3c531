// SPDX-License-Identifier: MIT
// Bytes of an update: chapter 18.
//
// In separate kernels an update is, in this order:
//     finite?  reads the gradient                          always
//     unscale  reads the gradient, writes it in fp32       if scaled
//     norm     reads it                                    if clipped
//     clip     reads it, writes it in fp32                 if clipped
//     m, v     each read it and their moment, write that   always
//     master   reads m, v and the master, writes that      always
//     cast     reads the master, writes 16-bit weights     always
// "It" has the bytes with which it was last written. Fused, inspect reads the gradient, and AdamW
// reads it again with master, m and v, and writes these three and the weights. Yours has gradients
// of `gradient` bytes.
#include "exercise.hpp"

int separate(const update& u) {
    //< separate: about 8 lines
    int g = u.gradient; // bytes of the gradient as it lies in memory now
    int bytes = g;
    if (u.scaled) {
        bytes += g + 4;
        g = 4;
    }
    if (u.clipped) {
        bytes += g + g + 4;
        g = 4;
    }
    return bytes + 2 * (g + 4 + 4) + (12 + 4) + (4 + 2);
    //> throw exercise::todo("separate");
}

int fused(const update& u) {
    //< fused: one line
    return u.gradient + (u.gradient + 12) + (12 + 2);
    //> throw exercise::todo("fused");
}

double milliseconds(double parameters, int bytes, double rate) {
    //< milliseconds: one line
    return 1000 * parameters * bytes / rate;
    //> throw exercise::todo("milliseconds");
}
