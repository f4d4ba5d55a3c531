// SPDX-License-Identifier: MIT
// mutant: only the sum shrinks
// fails: the same as with the whole row at hand
//< tile
    if (most == -INFINITY) return;
    const float shrink = std::exp(r.max - most);
    r.sum *= shrink;
    r.max = most;
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const float e = std::exp(scores[i] - most);
        r.sum += e;
        r.out += e * values[i];
    }
