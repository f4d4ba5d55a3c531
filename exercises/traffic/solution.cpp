// SPDX-License-Identifier: MIT
// Traffic: chapters 21 to 24.
//
// A reduce_scatter or an all_gather sends (N - 1) / N of what it is about, an all_reduce twice
// that. Count for a window how often each is called, for `micros` micro-batches first, then for
// any.
#include "exercise.hpp"

double sent(int stage, bool once, int M, int N) {
    const double part = double(N - 1) / N;
    //< sent: about 5 lines
    const int reduced = once ? 1 : M; // how often gradients travel
    if (stage == 0) return 2 * reduced * part;
    if (stage <= 2) return (reduced + 1) * part;
    return (2 * M + reduced) * part;
    //> throw exercise::todo("sent");
}
