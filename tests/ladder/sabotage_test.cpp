// SPDX-License-Identifier: MIT
// Every mistake that a step of many ranks is known for must be seen, in every stage that can make
// it: another outcome, ranks that differ, or an error.
#include "ladder.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace ladder;

namespace {

bool seen(int ranks, trial j, sabotage what) {
    trial right = j;
    right.stage = 0; // what every stage is held against
    const outcome wanted = run(ranks, right);
    j.wrong = sabotage::none;
    REQUIRE(run(ranks, j) == wanted);
    j.wrong = what;
    try {
        return !(run(ranks, j) == wanted);
    } catch (const error&) {
        return true;
    }
}

struct twin {
    const char* name;
    sabotage what;
    std::vector<int> stages; // that can make it
};

} // namespace

TEST_CASE("each mistake is seen") {
    const std::vector<int> all = {0, 1, 2, 3};
    for (const twin& t : {twin{"bucket by arrival", sabotage::bucket_by_arrival, all},
                          {"mean of means", sabotage::mean_of_means, all},
                          {"no agreement on overflow", sabotage::no_agreement, {1, 2, 3}},
                          {"update before unscale", sabotage::update_before_unscale, all},
                          {"clip before unscale", sabotage::clip_before_unscale, all},
                          {"double reduction", sabotage::double_reduction, all},
                          {"norm counted once a rank", sabotage::norm_of_each_rank, all},
                          {"lost micro-gradient", sabotage::lost_micro_gradient, all},
                          {"padding leaked", sabotage::padding_leaked, {1, 2, 3}},
                          {"stale weights", sabotage::stale_weights, {1, 2}}})
        for (const int stage : t.stages)
            for (const precision type : {precision::fp32, precision::fp16})
                for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every}) {
                    trial j;
                    j.stage = stage;
                    j.type = type;
                    j.micros = 2;
                    j.mode = mode;
                    CAPTURE(t.name);
                    CAPTURE(stage);
                    CHECK(seen(3, j, t.what));
                }
}

TEST_CASE("without agreement ZeRO-3 drifts in silence: no error, other weights") {
    trial j;
    j.stage = 3;
    const outcome wanted = run(2, j);
    j.wrong = sabotage::no_agreement;
    std::vector<outcome> ranks(2);
    run_ranks(2, [&](communicator& comm) { ranks[std::size_t(comm.rank())] = train(comm, j); });
    CHECK(ranks[0].weights == ranks[1].weights); // they gather them from each other
    CHECK_FALSE(ranks[0].weights == wanted.weights);
    CHECK_FALSE(ranks[0].scale == ranks[1].scale);
}
