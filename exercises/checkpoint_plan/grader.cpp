// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

// Walked through, segment by segment.
long walked(const costs& c, int k) {
    long inputs = 0, most = 0;
    for (int begin = 0; begin < c.blocks; begin += k)
        if (begin + k < c.blocks) inputs += c.input;
    for (int begin = 0; begin < c.blocks; begin += k)
        most = std::max(most, inputs + long(std::min(k, c.blocks - begin)) * c.room);
    return most;
}
costs draw() {
    const long input = any().between(1, 100);
    return {int(exercise::parameter("blocks")), input * any().between(2, 20), input};
}
std::string said(const costs& c) {
    return mpt::join(c.blocks, " blocks, rooms of ", c.room, ", inputs of ", c.input);
}

} // namespace

PART("bytes held with segments of k", 3) {
    for (int round = 0; round < 10; ++round) {
        const costs c = draw();
        for (int k = 1; k <= c.blocks; ++k)
            equals(mpt::join("bytes with segments of ", k, ", ", said(c)), held(c, k), walked(c, k),
                   "inputs of all segments but the last, and the rooms of one");
    }
}
PART("the best segments", 3) {
    for (int round = 0; round < 30; ++round) {
        const costs c = draw();
        int least = 1;
        for (int k = 1; k <= c.blocks; ++k)
            if (walked(c, k) <= walked(c, least)) least = k;
        equals("the best k, " + said(c), best(c), least,
               "no other holds less; of several the largest");
    }
    equals("the best k of 16 blocks whose rooms are as large as eight inputs", best({16, 8, 1}), 2,
           "7 inputs and 2 rooms: 23; the square root of 16 would hold 3 + 32");
}
PART("blocks that run again", 2) {
    for (const int k : {1, 2, 5, 7, 30, 36}) {
        const costs c = draw();
        int twice = 0;
        for (int begin = 0; begin < c.blocks; begin += k)
            if (begin + k < c.blocks) twice += k;
        if (k <= c.blocks)
            equals(mpt::join("blocks run again with segments of ", k, " of ", c.blocks),
                   again(c, k), twice, "the last segment is not");
    }
}
