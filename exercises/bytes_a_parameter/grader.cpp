// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

void stages(const char* what, double (*found)(int, int), const double (&kept)[3]) {
    for (const int ranks : {1, 2, 7, int(exercise::parameter("ranks")), any().between(9, 60)})
        for (int stage = 0; stage <= 3; ++stage) {
            double expected = 0;
            for (int k = 0; k < 3; ++k) expected += kept[k] / (stage > k ? ranks : 1);
            near<double>(mpt::join(what, ", stage ", stage, ", ", ranks, " ranks"),
                         found(stage, ranks), expected, 4,
                         "optimizer, gradients, weights: stage by stage one more is sharded");
        }
}

} // namespace

PART("16-bit weights at every stage", 4) { stages("bytes", adam_in_16_bits, {12, 2, 2}); }
PART("fp32 weights at every stage", 3) { stages("bytes", adam_in_fp32, {8, 4, 4}); }
PART("sums of gradients", 1) {
    equals("bytes with accumulation", with_accumulation(), 20.0,
           "16 bits would lose small gradients beside a large sum: the sums are fp32");
}
