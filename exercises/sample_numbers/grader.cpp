// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <set>

using namespace grade;

namespace {

void tried(int ranks, int micros, int rows) {
    std::set<long> seen;
    for (int r = 0; r < ranks; ++r) {
        const std::vector<long> mine = samples(r, ranks, micros, rows);
        equals(mpt::join("samples of rank ", r, " of ", ranks), mine.size(),
               std::size_t(micros * rows), "a row of each micro-batch each");
        for (int k = 0; k < micros; ++k)
            for (int b = 0; b < rows; ++b) {
                const long found = mine[std::size_t(k * rows + b)];
                equals(mpt::join("micro-batch ", k, ", row ", b, " of rank ", r, ", ", ranks,
                                 " ranks of ", rows, " rows"),
                       found, (long(k) * ranks + r) * rows + b,
                       "micro-batch by micro-batch, in it rank by rank");
                equals(mpt::join("is sample ", found, " shown to one rank alone"),
                       seen.insert(found).second, true,
                       "two ranks with one sample learn it twice and another never");
            }
    }
    equals("different samples of all ranks", seen.size(), std::size_t(ranks * micros * rows),
           "every one once");
}

} // namespace

PART("your ranks", 2) { tried(int(exercise::parameter("ranks")), 3, 4); }
PART("any ranks", 2) {
    for (const int ranks : {1, 2, 3, 4, 7})
        for (const int micros : {1, 2, 5}) tried(ranks, micros, any().between(1, 6));
}
PART("numbers beyond 32 bits", 2) {
    const std::vector<long> mine = samples(65535, 65536, 2, 40000);
    equals("the last sample of the last of 65536 ranks with 40000 rows", mine.back(),
           2L * 65536 * 40000 - 1, "65536 * 40000 is more than an int holds");
}
