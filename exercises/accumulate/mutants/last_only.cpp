// SPDX-License-Identifier: MIT
// mutant: only the last micro-batch survives
// fails: every token of the window weighs the same
//< window
    const float seed = scale / float(all);
    for (int micro = 0; micro < int(tokens.size()); ++micro) {
        const std::vector<mpt::bf16> g = run(micro, seed);
        sum.clear();
        for (const mpt::bf16 x : g) sum.push_back(float(x));
    }
