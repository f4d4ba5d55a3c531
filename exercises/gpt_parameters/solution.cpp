// SPDX-License-Identifier: MIT
// The size of a GPT, and its price: chapter 28.
//
// A block has two layer norms, of a weight and a bias for each of C channels, and four linear
// layers with biases: C to 3 C (queries, keys, values), C to C, and the MLP, C to 4 C and back.
// Around the blocks lie the tables of V words and T places, and a last norm. The head borrows the
// words' table: it has no parameters of its own, but multiplies by that matrix all the same.
//
// Forward is a multiply and an add for each element of each matrix that a token is multiplied by;
// a row that is looked up, a bias and a norm count as nothing. In each block attention adds 2 T C
// under a causal mask (exercise mfu). Backward is twice forward. Take `layers` blocks of 64
// channels, a context of 64 and 256 words as an example for yourself.
#include "exercise.hpp"

long of_a_block(const shape& s) {
    //< block: about 5 lines
    const long C = s.channels;
    const long norms = 2 * 2 * C;
    const long attention = 3 * C * C + 3 * C + C * C + C;
    const long mlp = 4 * C * C + 4 * C + 4 * C * C + C;
    return norms + attention + mlp;
    //> throw exercise::todo("block");
}

long parameters(const shape& s) {
    //< parameters: about 2 lines
    const long outside = (s.vocabulary + s.context + 2) * s.channels;
    return outside + s.layers * of_a_block(s);
    //> throw exercise::todo("parameters");
}

double operations_a_token(const shape& s) {
    //< operations: about 4 lines
    const double C = double(s.channels), L = double(s.layers);
    const double matrices = L * 12 * C * C + double(s.vocabulary) * C;
    const double attention = 2 * L * double(s.context) * C;
    return 3 * (2 * matrices + attention);
    //> throw exercise::todo("operations");
}

double tokens_a_second(const shape& s, double mfu, double peak) {
    //< tokens: one line
    return mfu * peak / operations_a_token(s);
    //> throw exercise::todo("tokens");
}
