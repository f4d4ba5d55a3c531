// SPDX-License-Identifier: MIT
// What fits: chapters 11, 25 and 27.
//
// Weights 2, gradients 2, master and moments 12 bytes a parameter. ZeRO divides the last, the last
// two, all three; offload keeps the weights alone on the device. What no technique here divides are
// the activations, and the units that are whole for a while. Take the first that fits: each sends
// at least as much as the one before.
#include "exercise.hpp"

long bytes(const run& r, technique t) {
    const long P = r.parameters, N = r.ranks;
    //< bytes: about 6 lines
    long states = 2 * P; // offloaded: weights
    if (t == ddp) states = 16 * P;
    if (t == zero1) states = 4 * P + 12 * P / N;
    if (t == zero2) states = 2 * P + 14 * P / N;
    if (t == zero3) states = 16 * P / N;
    const long flight = t == zero3 ? 4 : t == zero2 || t == offloaded ? 2 : 0;
    return states + flight * r.whole + r.activations;
    //> throw exercise::todo("bytes");
}

technique first_that_fits(const run& r) {
    //< first: about 3 lines
    for (const technique t : {ddp, zero1, zero2, zero3, offloaded})
        if (bytes(r, t) <= r.budget) return t;
    return none;
    //> throw exercise::todo("first_that_fits");
}

int ranks_needed(const run& r) {
    //< ranks: about 4 lines
    const long left = (r.budget - r.activations - 4 * r.whole) / 16; // parameters that fit
    if (r.budget < r.activations + 4 * r.whole || left == 0) return 0;
    return int((r.parameters + left - 1) / left);
    //> throw exercise::todo("ranks_needed");
}
