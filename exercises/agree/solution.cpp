// SPDX-License-Identifier: MIT
// Overflow on one rank: chapter 21.
//
// Each rank owns a shard of the weights: gradients are reduce-scattered, the shard is updated, the
// weights are gathered. "After a few thousand steps the ranks have different loss scales, and then
// the loss is NaN", says the report. The code between the markers is the reporter's.
#include "exercise.hpp"

#include <cmath>
#include <vector>

bool step(mpt::communicator& comm, run& state, std::span<float> w, std::span<const float> g,
          float rate) {
    const std::size_t n = w.size() / std::size_t(comm.size());
    const std::span<float> mine = w.subspan(n * std::size_t(comm.rank()), n);
    std::vector<float> sum(n);
    comm.reduce_scatter<float>({sum.data(), n}, {g.data(), g.size()});
    bool finite = true;
    for (const float x : sum) finite = finite && std::isfinite(x);
    //< decide: about 8 lines
    if (!comm.all(finite)) {
        state.scale /= 2;
        return false;
    }
    for (std::size_t i = 0; i < n; ++i) mine[i] -= rate * (sum[i] / state.scale);
    ++state.applied;
    comm.all_gather<float>({w.data(), w.size()}, {mine.data(), n});
    return true;
    //> if (!finite) state.scale /= 2;
    //> if (finite)
    //>     for (std::size_t i = 0; i < n; ++i) mine[i] -= rate * (sum[i] / state.scale);
    //> if (finite) ++state.applied;
    //> comm.all_gather<float>({w.data(), w.size()}, {mine.data(), n});
    //> return finite;
}
