// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <algorithm>
#include <vector>

using namespace grade;

namespace {

int ranks() { return int(exercise::parameter("ranks")); }

} // namespace

PART("padding is no parameter", 3) {
    for (const int N : {1, 2, ranks(), 16})
        for (const long n : {1L, 7L, 50176L, long(any().between(1, 100000)), 3000000019L}) {
            long shard = n / N; // the least size that holds all
            if (shard * N < n) ++shard;
            long left = n;
            for (int rank = 0; rank < N; ++rank) {
                const long here = std::min(left, shard);
                equals(mpt::join("parameters of rank ", rank, " of ", N, ", a unit of ", n),
                       owned(n, rank, N), here,
                       "shards are equal; the last ranks have fewer parameters, or none");
                left -= here;
            }
        }
}
PART("whole for a while", 2) {
    for (const int blocks : {1, 2, 4, any().between(5, 100)})
        for (const int ahead : {0, 1, 2, 3}) {
            const long U = any().between(1, 100000), B = any().between(1, 100000);
            std::vector<long> there; // gradients of blocks, in the order in which they are made
            long most = U;
            for (int block = blocks; block-- > 0;) {
                there.push_back(B);
                long now = U;
                for (const long b : there) now += b;
                most = std::max(most, now);
                if (int(there.size()) > ahead) there.erase(there.begin()); // it has arrived
            }
            equals(mpt::join("gradients whole: embedding of ", U, ", ", blocks, " blocks of ", B,
                             ", ", ahead, " ahead"),
                   whole(U, B, blocks, ahead), most,
                   "the embedding, the block that is made, and those that travel");
        }
    equals("gradients whole: embedding of 1, blocks of 3000000000", whole(1, 3000000000L, 9, 1),
           6000000001L, "more than 32 bits hold");
}
PART("kept", 3) {
    for (const int N : {1, 2, ranks(), 64})
        for (const int micros : {1, 2, 8})
            for (const bool once : {true, false}) {
                double bytes = 2 + 4.0 / N + 8.0 / N; // weights; master; moments
                if (micros == 1 || !once) bytes += 2.0 / N;
                if (micros > 1) bytes += once ? 4 : 4.0 / N;
                near<double>(mpt::join("bytes a parameter on one of ", N, " ranks, ", micros,
                                       " micro-batches, reduced ", once ? "once" : "every time"),
                             kept(N, micros, once), bytes, 8,
                             "what is added up before the ranks' sum cannot be in N parts");
            }
}
