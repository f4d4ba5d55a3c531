// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <array>

using namespace grade;

namespace {

const char* const names[] = {"ddp", "zero1", "zero2", "zero3", "offloaded", "none"};

run draw() {
    const int N = int(exercise::parameter("ranks"));
    return {long(any().between(50, 900)) * N * 100, any().between(100, 2000),
            any().between(1000, 90000), 0, N};
}
// Bytes a parameter that are kept whole, and those that are divided; times `whole`.
long expected(const run& r, technique t) {
    constexpr std::array<std::array<long, 3>, 5> kept = {
        {{16, 0, 0}, {4, 12, 0}, {2, 14, 2}, {0, 16, 4}, {2, 0, 2}}};
    const auto& k = kept[t];
    return k[0] * r.parameters + k[1] * (r.parameters / r.ranks) + k[2] * r.whole + r.activations;
}
std::string said(const run& r) {
    return mpt::join(r.parameters, " parameters, ", r.whole, " whole, ", r.activations,
                     " bytes of activations, ", r.ranks, " ranks, a budget of ", r.budget);
}

} // namespace

PART("bytes of each technique", 3) {
    for (int round = 0; round < 10; ++round) {
        const run r = draw();
        for (const technique t : {ddp, zero1, zero2, zero3, offloaded})
            equals(mpt::join("bytes of ", names[t], ", ", said(r)), bytes(r, t), expected(r, t),
                   "states, what is whole for a while, activations");
    }
}
PART("the first that fits", 3) {
    for (int round = 0; round < 10; ++round)
        for (const technique limit : {ddp, zero1, zero2, zero3, offloaded})
            for (const long off : {-1L, 0L}) { // a byte too little, and just enough
                run r = draw();
                r.budget = expected(r, limit) + off;
                technique first = none;
                for (const technique t : {offloaded, zero3, zero2, zero1, ddp})
                    if (expected(r, t) <= r.budget) first = t;
                equals("the first that fits, " + said(r), std::string(names[first_that_fits(r)]),
                       std::string(names[first]), "the first in order; the last byte counts");
            }
}
PART("ranks that zero3 needs", 2) {
    for (int round = 0; round < 20; ++round) {
        run r = draw();
        r.budget = r.activations + 4 * r.whole + any().between(-40, 4000);
        int least = 0;
        for (long N = 1; N <= r.parameters && least == 0; ++N)
            if (16 * ((r.parameters + N - 1) / N) + 4 * r.whole + r.activations <= r.budget)
                least = int(N);
        equals("ranks, " + said(r), ranks_needed(r), least,
               "activations and whole units stay on each; 0 where they alone do not fit");
    }
    run r = draw();
    r.budget = r.activations; // no room for anything else
    equals("ranks, " + said(r), ranks_needed(r), 0, "no number of ranks divides activations");
}
