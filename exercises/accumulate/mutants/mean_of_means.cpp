// SPDX-License-Identifier: MIT
// mutant: each micro-batch is divided by its own tokens, the sum by their number
// fails: the example: losses 10 over 10 tokens and 6 over 2
//< window
    for (int micro = 0; micro < int(tokens.size()); ++micro) {
        const float seed = scale / float(tokens[std::size_t(micro)]);
        const std::vector<mpt::bf16> g = run(micro, seed);
        sum.resize(g.size());
        for (std::size_t i = 0; i < g.size(); ++i) sum[i] += float(g[i]) / float(tokens.size());
    }
    (void)all;
