// SPDX-License-Identifier: MIT
// stage_runs.hpp -- a stage of ZeRO beside ddp: the same training, in both modes of reduction, and
// what the two have in common and have not.
#pragma once
#include "claims.hpp"      // claims
#include "rank_tables.hpp" // held_table, sent_table, same_weights
#include "ranks_run.hpp"   // train_rank

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

inline mpt::gpt_config ranks_model() {
    mpt::gpt_config c;
    c.layers = 4, c.channels = 64, c.context = 64, c.dropout = 0.1f;
    return c;
}

/// break_it(run): what the chapter's --sabotage does to the runs of its stage.
template <class Break>
std::vector<trained> stage_run(int ranks, const rank_plan& p, Break break_it) {
    return on_ranks(ranks, [&](mpt::communicator& comm) {
        return train_rank<mpt::fp16>(comm, ranks_model(), p, break_it);
    });
}

struct both_modes {
    std::vector<trained> once, every;
};

//! [beside]
/// Trains with ddp and with the plan's stage; prints and claims what a chapter on ZeRO claims.
template <class Break>
both_modes beside_ddp(claims& claim, int ranks, rank_plan p, const char* bytes, Break break_it) {
    const auto intact = [](auto&) {};
    const std::string stage = stage_name(p.stage);
    both_modes found;
    bool equal = true, sent = true, held = true;
    for (const auto mode : {mpt::reduce_mode::once, mpt::reduce_mode::every}) {
        rank_plan plain = p;
        plain.stage = 0, plain.mode = p.mode = mode;
        const std::vector<trained> ddp = stage_run(ranks, plain, intact);
        std::vector<trained> zero = stage_run(ranks, p, break_it);
        std::printf("reduced %s: loss %.4f -> %.4f, %ld of %ld steps skipped\n"
                    "weights %08x of ddp, %08x of %s\n",
                    to_string(mode), zero[0].losses.front(), zero[0].losses.back(), zero[0].skipped,
                    p.steps, ddp[0].digests.back(), zero[0].digests.back(), stage.c_str());
        equal &= zero[0].digests.back() == ddp[0].digests.back() && zero[0].losses == ddp[0].losses;
        held &= held_table(zero, p, sizeof(mpt::fp16));
        sent &= sent_table(ddp, plain);
        sent &= sent_table(zero, p);
        std::printf("\n");
        (mode == mpt::reduce_mode::once ? found.once : found.every) = std::move(zero);
    }
    same_weights(claim, found.once);
    claim(equal, stage + " = ddp, bit for bit, reduced once and every micro-batch");
    claim(found.every[0].skipped == 1, "rank 1 overflows in step 4, in a part that another owns: "
                                       "all ranks skip it");
    claim(held, mpt::join(bytes, " bytes a parameter, and fp32 sums: measured = formula"));
    claim(sent, "elements sent: measured = formula, reduced once and every micro-batch");
    return found;
}
//! [beside]

/// What the ranks say while the window of step 1 is trained: rank 0's lines.
inline std::vector<std::string> told(int ranks, rank_plan p) {
    return on_ranks(ranks, [&](mpt::communicator& comm) {
        ranks_run<mpt::fp16> run(comm, ranks_model(), p);
        windows data(run.ops, run.mem, "", p.M, p.B, 64, comm.rank(), comm.size());
        std::vector<std::string> lines;
        run.step(data(0)); // zero3 learns the order of units
        run.narrate().tell = [&](const std::string& line) { lines.push_back(line); };
        run.step(data(1));
        run.narrate().tell = nullptr;
        return lines;
    })[0];
}
