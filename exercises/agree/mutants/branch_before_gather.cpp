// SPDX-License-Identifier: MIT
// mutant: a collective inside a branch on what one rank saw
// fails: an overflow in another rank's shard skips the step on all
//< decide
    if (!finite) {
        state.scale /= 2;
        return false;
    }
    for (std::size_t i = 0; i < n; ++i) mine[i] -= rate * (sum[i] / state.scale);
    ++state.applied;
    comm.all_gather<float>({w.data(), w.size()}, {mine.data(), n});
    return true;
