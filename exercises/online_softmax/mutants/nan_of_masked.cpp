// SPDX-License-Identifier: MIT
// mutant: a masked beginning makes NaN
// fails: masked scores
//< tile
    const float shrink = std::exp(r.max - most);
    r.sum *= shrink;
    r.out *= shrink;
    r.max = most;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const float e = std::exp(scores[i] - most);
        r.sum += e;
        r.out += e * values[i];
    }
