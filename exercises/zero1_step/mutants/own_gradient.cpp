// SPDX-License-Identifier: MIT
// mutant: the momentum is of this rank's own gradient
// fails: the bits of a rank that keeps everything
//< step
    const std::size_t at = n * std::size_t(comm.rank());
    for (std::size_t i = 0; i < n; ++i) {
        momentum[i] = 0.9f * momentum[i] + g[at + i];
        w[at + i] -= rate * momentum[i];
    }
    comm.all_gather<float>({w.data(), w.size()}, {w.data() + at, n});
