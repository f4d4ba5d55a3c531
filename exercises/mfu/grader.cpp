// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

model draw() {
    return {1e6 * any().between(1, 2000), int(exercise::parameter("layers")),
            64 * any().between(1, 40), 64 * any().between(1, 64)};
}
double right(const model& m) { return 6 * m.parameters + 6.0 * m.layers * m.context * m.channels; }

} // namespace

PART("forward and backward", 3) {
    for (int round = 0; round < 10; ++round) {
        const model m = draw();
        near<double>(mpt::join("operations a token of ", m.parameters, " parameters, ", m.layers,
                               " layers, ", m.channels, " channels, context ", m.context),
                     operations_a_token(m), right(m), 8, "6 P and 6 L T C");
    }
    const model gpt2{124e6, 12, 768, 1024};
    near<double>("operations a token of GPT-2 124M", operations_a_token(gpt2), 744e6 + 56623104.0,
                 8, "6 * 124e6, and attention adds 8 % at a context of 1024");
}
PART("forward again", 1) {
    const model m = draw();
    near<double>("operations a token with everything recomputed", with_checkpointing(m),
                 4.0 / 3 * right(m), 8, "one forward more: 8 P in place of 6 P");
}
PART("the share of the machine", 2) {
    const model m = draw();
    near<double>("utilisation", mfu(m, 250000, 312e12), right(m) * 250000 / 312e12, 8,
                 "needed operations a second over possible ones; recomputed ones are no progress");
}
