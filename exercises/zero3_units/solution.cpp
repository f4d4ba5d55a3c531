// SPDX-License-Identifier: MIT
// ZeRO stage 3: chapters 21 and 24.
//
// Each rank keeps a shard of every unit's weights. Before a layer computes its unit is gathered,
// after that the gathered copy is given back: only what is in use is whole. A unit may be acquired
// twice at one time, as by recomputation inside backward: it is gathered once, and given back by
// the last release. Weights must not be kept over an update: a later acquire gathers the new ones.
#include "exercise.hpp"

#include <stdexcept>

std::span<const float> units::acquire(int unit) {
    const std::vector<float>& shard = shards_.at(std::size_t(unit));
    const std::size_t n = shard.size() * std::size_t(comm_.size()); // elements of the unit
    //< acquire: about 6 lines
    whole& w = here_[unit];
    if (w.users++ == 0) {
        w.weights = memory_.take(n);
        comm_.all_gather<float>({w.weights.data(), n}, {shard.data(), shard.size()});
    }
    return w.weights;
    //> throw exercise::todo("acquire");
}

void units::release(int unit) {
    const auto found = here_.find(unit);
    if (found == here_.end()) throw std::logic_error("release of a unit that is not acquired");
    //< release: about 4 lines
    if (--found->second.users > 0) return;
    memory_.give(found->second.weights);
    here_.erase(found);
    //> throw exercise::todo("release");
}
