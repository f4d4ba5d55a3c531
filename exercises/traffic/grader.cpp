// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

void tried(int stage, bool once) {
    for (const int M : {1, int(exercise::parameter("micros")), any().between(2, 20)})
        for (const int N : {1, 2, 3, 8, any().between(9, 100)}) {
            double calls = 0; // in reduce_scatters and all_gathers, counted one by one
            for (int micro = 0; micro < M; ++micro) {
                if (stage == 3) calls += 2;
                if (!once || micro + 1 == M) calls += stage == 0 ? 2 : 1;
            }
            if (stage == 1 || stage == 2) calls += 1; // the new weights
            near<double>(
                mpt::join("elements a parameter, stage ", stage, once ? ", once" : ", every", ", ",
                          M, " micro-batches, ", N, " ranks"),
                sent(stage, once, M, N), calls * (N - 1) / N, 4, "count the calls of the window");
        }
}

} // namespace

PART("all_reduce", 1) { tried(0, true), tried(0, false); }
PART("stages 1 and 2", 2) {
    for (const int stage : {1, 2}) tried(stage, true), tried(stage, false);
}
PART("stage 3", 3) { tried(3, true), tried(3, false); }
