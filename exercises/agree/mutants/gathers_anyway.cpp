// SPDX-License-Identifier: MIT
// mutant: a skipped step gathers the old weights
// fails: a skipped step changes nothing and sends no weights
//< decide
    const bool all = comm.all(finite);
    if (!all) state.scale /= 2;
    for (std::size_t i = 0; all && i < n; ++i) mine[i] -= rate * (sum[i] / state.scale);
    state.applied += all;
    comm.all_gather<float>({w.data(), w.size()}, {mine.data(), n});
    return all;
