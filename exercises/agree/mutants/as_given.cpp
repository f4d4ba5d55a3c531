// SPDX-License-Identifier: MIT
// mutant: each rank decides for itself
// fails: an overflow in another rank's shard skips the step on all
//< decide
    if (!finite) state.scale /= 2;
    if (finite)
        for (std::size_t i = 0; i < n; ++i) mine[i] -= rate * (sum[i] / state.scale);
    if (finite) ++state.applied;
    comm.all_gather<float>({w.data(), w.size()}, {mine.data(), n});
    return finite;
