// SPDX-License-Identifier: MIT
// mutant: the sum is kept in bf16
// fails: the sum is fp32
//< window
    const float seed = scale / float(all);
    for (int micro = 0; micro < int(tokens.size()); ++micro) {
        const std::vector<mpt::bf16> g = run(micro, seed);
        sum.resize(g.size());
        for (std::size_t i = 0; i < g.size(); ++i)
            sum[i] = float(mpt::bf16(sum[i] + float(g[i])));
    }
