// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

shape mine() { return {exercise::parameter("layers"), 64, 64, 256}; }
shape draw() {
    return {any().between(1, 60), 64 * any().between(1, 60), 64 * any().between(1, 64),
            any().between(256, 60000)};
}
std::string name(const shape& s) {
    return mpt::join(s.layers, " blocks of ", s.channels, " channels, context ", s.context, ", ",
                     s.vocabulary, " words");
}

// Tensor by tensor: a model of out x in matrices and vectors.
struct added {
    long all = 0, multiplied = 0; // parameters; those of matrices
    void linear(long out, long in) { all += out * in + out, multiplied += out * in; }
};
added block(long C) {
    added b;
    b.linear(3 * C, C), b.linear(C, C), b.linear(4 * C, C), b.linear(C, 4 * C);
    b.all += 4 * C;
    return b;
}
long all_of(const shape& s) {
    long sum = s.vocabulary * s.channels + s.context * s.channels + 2 * s.channels;
    for (long l = 0; l < s.layers; ++l) sum += block(s.channels).all;
    return sum;
}
// Whole numbers below 2^53: exact in any order.
double operations(const shape& s) {
    double forward = 2.0 * double(s.vocabulary * s.channels);
    for (long l = 0; l < s.layers; ++l)
        forward += 2.0 * double(block(s.channels).multiplied + s.context * s.channels);
    return 3 * forward;
}

} // namespace

PART("a block", 2) {
    equals("parameters of a block of 64 channels", of_a_block({1, 64, 64, 256}), 49984L,
           "12 C C of matrices, 9 C of their biases, 4 C of norms");
    const shape s = draw();
    equals("parameters of a block: " + name(s), of_a_block(s), block(s.channels).all,
           "it depends on the channels alone");
}
PART("the model", 3) {
    for (const shape& s : {mine(), draw(), draw()})
        equals("parameters: " + name(s), parameters(s), all_of(s),
               "both tables, the last norm, and the blocks; the head is the words' table");
    equals("parameters of GPT-2", parameters({12, 768, 1024, 50257}), 124439808L,
           "as the published file has them");
    equals("parameters of GPT-2 XL", parameters({48, 1600, 1024, 50257}), 1557611200L,
           "as the published file has them");
    const shape large{96, 12288, 2048, 50257};
    equals("parameters of GPT-3's shape", parameters(large), all_of(large),
           "175 billion are more than 32 bits hold");
}
PART("a token", 3) {
    for (const shape& s : {mine(), draw(), draw()}) {
        near<double>("operations a token: " + name(s), operations_a_token(s), operations(s), 0,
                     "6 for each element that multiplies, the head's too, and 6 L T C");
        near<double>("tokens a second at 40 % of 312e12: " + name(s),
                     tokens_a_second(s, 0.4, 312e12), 0.4 * 312e12 / operations(s), 4,
                     "what the machine does for it, by what a token needs");
    }
}
