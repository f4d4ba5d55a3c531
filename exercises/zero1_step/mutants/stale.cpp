// SPDX-License-Identifier: MIT
// mutant: the new shards are not gathered
// fails: the bits of a rank that keeps everything
//< step
    std::vector<float> sum(n);
    comm.reduce_scatter<float>({sum.data(), n}, {g.data(), g.size()});
    const std::span<float> mine = w.subspan(n * std::size_t(comm.rank()), n);
    for (std::size_t i = 0; i < n; ++i) {
        momentum[i] = 0.9f * momentum[i] + sum[i];
        mine[i] -= rate * momentum[i];
    }
