// SPDX-License-Identifier: MIT
// mutant: the warm-up begins at 0
// fails: your warm-up
//< rate
    if (applied < s.warmup) return s.rate * double(applied) / double(s.warmup);
    if (applied > s.decay) return s.least;
    const double done = double(applied - s.warmup) / double(s.decay - s.warmup);
    return s.least + (s.rate - s.least) * (1 + std::cos(pi * done)) / 2;
