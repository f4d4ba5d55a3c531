// SPDX-License-Identifier: MIT
// mutant: all gradients are brought to everyone
// fails: every verb once a step
//< step
    std::vector<float> sum(g.begin(), g.end());
    comm.all_reduce<float>({sum.data(), sum.size()});
    const std::size_t at = n * std::size_t(comm.rank());
    for (std::size_t i = 0; i < n; ++i) {
        momentum[i] = 0.9f * momentum[i] + sum[at + i];
        w[at + i] -= rate * momentum[i];
    }
    comm.all_gather<float>({w.data(), w.size()}, {w.data() + at, n});
