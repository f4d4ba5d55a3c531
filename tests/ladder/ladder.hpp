// SPDX-License-Identifier: MIT
/// @file ladder.hpp
/// The training step of every stage, on any communicator, and what came of it.
///
/// Idea     One step, written once; ddp and ZeRO-1, 2, 3 differ in the strategy alone. A rank
///          returns what every rank must agree on, so that runs of threads and of processes, of
///          one stage and another can be compared bit for bit. Each sabotage is a line in it.
/// See      step.hpp (the step), models.hpp
#pragma once
#include "mpt/comm/world.hpp"
#include "mpt/dist/bucket.hpp"
#include "mpt/dist/strategy_sizes.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ladder {

using namespace mpt;

enum class precision { fp32, fp16, bf16 };
enum class rule { adamw, adam8bit, lamb };

/// What may go wrong in a step, each as it has gone wrong elsewhere.
enum class sabotage {
    none,
    bucket_by_arrival,     // a rank's gradients lie in the order in which they came
    mean_of_means,         // each micro-batch divided by its own tokens
    no_agreement,          // each rank steps if its own gradients are finite
    update_before_unscale, // the step sees S g
    clip_before_unscale,   // the norm of S g against the limit
    double_reduction,      // sums over ranks, added over ranks once more
    norm_of_each_rank,     // squares that all hold, counted on each; or a rank's own alone
    lost_micro_gradient,   // one micro-batch of one rank is left out
    padding_leaked,        // what is behind a unit's end, taken for parameters
    stale_weights          // new weights are not published
};

struct trial {
    int stage = 0; // of ZeRO, 0: ddp
    precision type = precision::fp32;
    int micros = 1;
    reduce_mode mode = reduce_mode::once;
    rule optimizer = rule::adamw;
    bool mlp = false; // instead of a GPT of 3 blocks
    int again = 0;    // blocks in a segment that is run again; 0: none is
    int vocabulary = 40;
    float dropout = 0.1f;
    double clip = 0.1; // 0: off
    int steps = 5;
    int overflow = 2; // in this step the last rank's gradient has an infinity; -1: in none
    int rows = 2;     // of a micro-batch
    int channels = 12;
    int ahead = 1;
    std::size_t bucket = bucket_bytes;
    sabotage wrong = sabotage::none;
    int only = -1; // of the first micro-batch only this token is a target; its seed stays
};

/// What all ranks must have alike, and all stages of one reduce mode.
struct outcome {
    std::vector<double> loss, norm; // one a step, of all ranks
    std::vector<float> scale;
    std::vector<std::uint32_t> weights;                 // CRC-32C of each unit, as acquired
    std::vector<std::uint32_t> shards, master, moments; // ... of each shard of each unit
    bool operator==(const outcome&) const = default;
};

/// ... and what a rank sees beside.
struct account {
    strategy_sizes sizes;
    std::vector<std::size_t> shard; // elements of each unit's shards, padded
    std::size_t parameters = 0;
    std::size_t lasting = 0;        // bytes of weights, gradients, sums, master, moments
    std::size_t peak_in_flight = 0; // bytes of units that were whole for a while
    std::size_t left = 0;           // ... after the run
    std::map<verb, std::map<element, sent>> traffic; // of all steps
    std::vector<float> gradient;      // of the first step, still scaled; flat, of all ranks
    std::vector<std::size_t> tensors; // where each begins, and the end
    long tokens = 0;                  // targets of the first step
};

outcome train(communicator& comm, const trial& j, account* told = nullptr);

/// One line that names a trial, for a failing test.
std::string to_string(const trial& j);

/// On threads: what rank 0 has, after it was seen that all ranks have the same.
inline outcome run(int ranks, const trial& j) {
    std::vector<outcome> all(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](communicator& comm) { all[std::size_t(comm.rank())] = train(comm, j); });
    for (const outcome& x : all) check(x == all[0], "ranks differ");
    return all[0];
}

} // namespace ladder
