// SPDX-License-Identifier: MIT
// Ranks that are processes come to the bits of ranks that are threads.
#include "../mpi_job.hpp"
#include "ladder.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ladder;

namespace {

std::vector<trial> trials() {
    std::vector<trial> all;
    for (int stage = 0; stage <= 3; ++stage)
        for (const precision type : {precision::fp32, precision::fp16, precision::bf16}) {
            trial j;
            j.stage = stage;
            j.type = type;
            j.micros = 1 + (stage + int(type)) % 3;
            j.mode = reduce_mode((stage + int(type)) % 2);
            j.optimizer = rule(int(type));
            if (j.optimizer == rule::adam8bit) j.channels = 32;
            j.again = stage % 2;
            j.mlp = type == precision::bf16 && stage < 2;
            all.push_back(j);
        }
    return all;
}

} // namespace

TEST_CASE("processes = threads, bit for bit") {
    mpi_rank comm(job());
    for (const trial& j : trials()) {
        const std::string what = to_string(j);
        CAPTURE(what);
        const outcome processes = train(comm, j);
        CHECK(processes == run(comm.size(), j));
        // sabotage: one micro-batch of one rank is lost
        trial wrong = j;
        wrong.wrong = sabotage::lost_micro_gradient;
        CHECK_FALSE(train(comm, wrong) == processes);
    }
}
