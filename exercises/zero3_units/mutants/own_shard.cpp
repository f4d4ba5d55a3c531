// SPDX-License-Identifier: MIT
// mutant: the others' shards stay 0
// fails: a unit is whole while it is acquired
//< acquire
    whole& w = here_[unit];
    if (w.users++ == 0) {
        w.weights = memory_.take(n);
        for (std::size_t i = 0; i < shard.size(); ++i)
            w.weights[shard.size() * std::size_t(comm_.rank()) + i] = shard[i];
    }
    return w.weights;
