// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

std::string name(const update& u) {
    return mpt::join("bytes a parameter, gradients of ", u.gradient, ", ",
                     u.scaled ? "scaled" : "no scale", ", ", u.clipped ? "clipped" : "not clipped");
}

} // namespace

// The tables are those of chapter 18's kernels, written out.
PART("a kernel for each operation", 3) {
    equals(name({2, true, true}), separate({2, true, true}), 66,
           "2 + 6 + 4 + 8 + 12 + 12 + 16 + 6: chapter 18's eight passes");
    equals(name({2, true, false}), separate({2, true, false}), 54, "no norm, no clip");
    equals(name({2, false, true}), separate({2, false, true}), 56,
           "norm and clip read 2 bytes: nobody has widened them");
    equals(name({2, false, false}), separate({2, false, false}), 44,
           "finite?, m, v, master and cast are left; m and v read 2 bytes of the gradient");
    const int g = int(exercise::parameter("gradient"));
    for (const bool scaled : {false, true})
        for (const bool clipped : {false, true}) {
            const int finite = g, unscale = scaled ? g + 4 : 0, after = scaled ? 4 : g;
            const int clip = clipped ? after + after + 4 : 0, last = clipped ? 4 : after;
            equals(name({g, scaled, clipped}), separate({g, scaled, clipped}),
                   finite + unscale + clip + (last + 8) + (last + 8) + 16 + 6,
                   "each pass reads what the one before has written");
        }
}
PART("fused", 2) {
    for (const bool scaled : {false, true})
        for (const bool clipped : {false, true}) {
            equals(name({2, scaled, clipped}), fused({2, scaled, clipped}), 30,
                   "2 for the questions, 14 + 14: scale and factor are numbers in a register");
            equals(name({4, scaled, clipped}), fused({4, scaled, clipped}), 34,
                   "the gradient is read twice");
        }
}
PART("time", 1) {
    const double P = 1e6 * any().between(1, 2000), rate = 1e12 * any().between(1, 8);
    near<double>(mpt::join("milliseconds of ", P, " parameters, 30 bytes each, at ", rate),
                 milliseconds(P, 30, rate), P * 30 / rate * 1000, 8, "bytes by bytes a second");
}
