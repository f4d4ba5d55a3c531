// SPDX-License-Identifier: MIT
// mutant: every acquire gathers
// fails: acquired twice: gathered once, and there until the last release
//< acquire
    whole& w = here_[unit];
    if (w.users++ == 0) w.weights = memory_.take(n);
    comm_.all_gather<float>({w.weights.data(), n}, {shard.data(), shard.size()});
    return w.weights;
