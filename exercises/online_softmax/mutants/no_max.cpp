// SPDX-License-Identifier: MIT
// mutant: no maximum is subtracted
// fails: large scores
//< tile
    r.max = most;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const float e = std::exp(scores[i]);
        r.sum += e;
        r.out += e * values[i];
    }
