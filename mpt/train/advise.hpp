// SPDX-License-Identifier: MIT
/// @file advise.hpp
/// Which technique first, where a run does not fit.         tier 5, needs: train/estimate.hpp
///
/// Idea     In the order of what each costs: plain data parallelism sends gradients once; ZeRO-1
///          and 2 hold less and send as much, ZeRO-3 half as much again (of M = 1); offloading
///          waits for the host, a file for longer. Activation checkpointing costs up to a third of
///          the products and is tried where all else would fit but for the activations.
/// Formula  elements sent a step of M micro-batches, times (N-1)/N: 2 P, 2 P, (M+1) P, 3 M P;
///          2 P and (2 M + 1) P in the last two where gradients are reduced once
/// Breaks   one rank: ZeRO has nothing to divide, those candidates are left out
/// Source   the order is the field's: no ZeRO while it fits, 2 before 3, offloading last
/// See      estimate.hpp, chapters/11_estimate.cpp, tests/train/estimate_test.cpp
#pragma once
#include "mpt/train/estimate.hpp" // estimate_bytes, training_plan, offload_to

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace mpt {

struct candidate {
    std::string name;
    training_plan plan;
    bool again; // with activation checkpointing
    estimate bytes;
    bool fits; // into the device memory asked for
};

/// All candidates in order. base: the run's; its stage and offload are replaced. again: the model
/// with checkpointing, or the same model where there is none to have.
inline std::vector<candidate> advise(const model_size& m, const model_size& again,
                                     const training_plan& base, std::size_t device) {
    struct step {
        const char* name;
        int stage;
        offload_to offload;
    };
    const step many[] = {{"data parallel", 0, offload_to::none},
                         {"ZeRO-1", 1, offload_to::none},
                         {"ZeRO-2", 2, offload_to::none},
                         {"ZeRO-3", 3, offload_to::none},
                         {"ZeRO-2, optimizer in host memory", 2, offload_to::host},
                         {"ZeRO-3, optimizer in host memory", 3, offload_to::host},
                         {"ZeRO-3, states in a file", 3, offload_to::file}};
    const step one[] = {{"as it is", 0, offload_to::none},
                        {"optimizer in host memory", 0, offload_to::host},
                        {"optimizer in a file", 0, offload_to::file}};
    std::vector<step> steps(std::begin(many), std::end(many));
    if (base.ranks == 1) steps.assign(std::begin(one), std::end(one));

    std::vector<candidate> all;
    for (const step& s : steps) {
        training_plan p = base;
        p.stage = s.stage, p.offload = s.offload;
        const estimate plain = estimate_bytes(m, p), less = estimate_bytes(again, p);
        const bool fits = plain.total() <= device;
        all.push_back({s.name, p, false, plain, fits});
        const bool it_is_activations = plain.total() - m.activations <= device;
        if (!fits && it_is_activations && less.total() < plain.total())
            all.push_back(
                {std::string(s.name) + " + checkpointing", p, true, less, less.total() <= device});
    }
    return all;
}

/// The first that fits; where none does, the one with the fewest bytes. `all` is not empty.
inline const candidate& best_of(const std::vector<candidate>& all) {
    const auto first = std::find_if(all.begin(), all.end(), [](const auto& c) { return c.fits; });
    if (first != all.end()) return *first;
    return *std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return a.bytes.total() < b.bytes.total();
    });
}

} // namespace mpt
