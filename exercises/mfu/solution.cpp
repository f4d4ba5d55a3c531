// SPDX-License-Identifier: MIT
// Operations of a transformer: chapter 11.
//
// A token passes each parameter of each matrix once forward: a multiply and an add. Backward does
// that twice over, for the gradients of input and matrix. So matrices cost 6 a parameter.
// Attention comes on top: a token's query meets the keys of the tokens before it, C channels each,
// and its weights their values: two multiply-adds a channel and key. With a causal mask half of a
// context of T is before a token on average. Backward is twice forward here, too.
// Take `layers` layers of 768 channels and a context of 1024 as an example for yourself.
#include "exercise.hpp"

double operations_a_token(const model& m) {
    //< operations: about 3 lines
    const double attention = 2.0 * m.layers * m.context * m.channels;
    return 3 * (2 * m.parameters + attention);
    //> throw exercise::todo("operations");
}

double with_checkpointing(const model& m) {
    //< again: about 2 lines
    return operations_a_token(m) / 3 * 4;
    //> throw exercise::todo("again");
}

double mfu(const model& m, double tokens, double peak) {
    //< mfu: one line
    return operations_a_token(m) * tokens / peak;
    //> throw exercise::todo("mfu");
}
