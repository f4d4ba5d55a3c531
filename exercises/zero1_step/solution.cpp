// SPDX-License-Identifier: MIT
// ZeRO stage 1: chapters 21 and 22.
//
// Data-parallel ranks all keep the same momentum and take the same step: N times the memory for
// one result. Here each rank keeps momentum for its shard only. It needs no other gradients than
// the shard's, so a reduce_scatter serves; it updates its shard of the weights, and an all_gather
// brings the others'. Sent are as many bytes as by an all_reduce, which is the one and then the
// other.
#include "exercise.hpp"

#include <vector>

void step(mpt::communicator& comm, std::span<float> w, std::span<const float> g,
          std::span<float> momentum, float rate) {
    const std::size_t n = w.size() / std::size_t(comm.size());
    //< step: two verbs and the update between, about 7 lines
    std::vector<float> sum(n);
    comm.reduce_scatter<float>({sum.data(), n}, {g.data(), g.size()});
    const std::span<float> mine = w.subspan(n * std::size_t(comm.rank()), n);
    for (std::size_t i = 0; i < n; ++i) {
        momentum[i] = 0.9f * momentum[i] + sum[i];
        mine[i] -= rate * momentum[i];
    }
    comm.all_gather<float>({w.data(), w.size()}, {mine.data(), n});
    //> throw exercise::todo("step");
}
