// SPDX-License-Identifier: MIT
// mutant: the cosine goes up again behind its end
// fails: the cosine and its end
//< rate
    if (applied < s.warmup) return s.rate * double(applied + 1) / double(s.warmup + 1);
    const double done = double(applied - s.warmup) / double(s.decay - s.warmup);
    return s.least + (s.rate - s.least) * (1 + std::cos(pi * done)) / 2;
