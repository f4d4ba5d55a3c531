// SPDX-License-Identifier: MIT
// N ranks with M micro-batches each against one rank that is shown all their rows at once.
#include "ladder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

using namespace ladder;

namespace {

account gradient(int ranks, trial j) {
    j.steps = 1;
    j.overflow = -1;
    std::vector<account> all(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](communicator& comm) { train(comm, j, &all[std::size_t(comm.rank())]); });
    return all[0];
}

/// Both add up the same contributions of single tokens, in another order. In units of the largest
/// element of a tensor's sum of |contributions|:
///   sums of n tokens in fp32, and the few roundings around them, on both sides: 2 (n + 8) 2^-24;
///   in 16 bits the gradient of a micro-batch is rounded twice (the table's comes from the head,
///   then from the embedding), its sum over ranks once more, that of the joined batch twice: 5 u.
double bound(precision type, long tokens) {
    const double u = type == precision::fp32 ? 0 : type == precision::fp16 ? 0x1p-11 : 0x1p-8;
    return 2 * double(tokens + 8) * 0x1p-24 + 5 * u * (1 + u);
}

bool agree(int ranks, const trial& j) {
    const account many = gradient(ranks, j);
    trial joined = j;
    joined.stage = 0;
    joined.micros = 1;
    joined.rows = j.rows * j.micros * ranks;
    joined.wrong = sabotage::none;
    const account one = gradient(1, joined);
    CHECK(many.tokens == one.tokens);

    std::vector<double> each(one.gradient.size()); // sum of |contributions|
    for (int t = 0; t < joined.rows * (j.mlp ? 1 : 6); ++t) {
        joined.only = t;
        const account alone = gradient(1, joined);
        for (std::size_t i = 0; i < each.size(); ++i)
            each[i] += std::abs(double(alone.gradient[i]));
    }
    // ... and where numbers are small, each rounding is off by up to half the smallest number.
    const double smallest = j.type == precision::fp16 ? 0x1p-24 : 0x1p-126;
    for (std::size_t t = 0; t + 1 < one.tensors.size(); ++t) {
        double far = 0, A = 0;
        for (std::size_t i = one.tensors[t]; i < one.tensors[t + 1]; ++i) {
            far = std::max(far, std::abs(double(many.gradient[i]) - double(one.gradient[i])));
            A = std::max(A, each[i]);
        }
        if (!(far <= bound(j.type, one.tokens) * A + smallest * double(2 * ranks * j.micros + 3)))
            return false;
    }
    return true;
}

} // namespace

TEST_CASE("one rank on the joined batch, to rounding") {
    for (const bool mlp : {false, true})
        for (const precision type : {precision::fp32, precision::fp16, precision::bf16})
            for (const int ranks : {1, 2, 3})
                for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every}) {
                    trial j;
                    j.mlp = mlp;
                    j.type = type;
                    j.mode = mode;
                    j.stage = 1 + ranks % 3;
                    j.micros = 2;
                    j.rows = ranks == 2 ? 1 : 2; // of one row: a rank sees no target at all
                    const std::string what = to_string(j);
                    CAPTURE(what);
                    CAPTURE(ranks);
                    CHECK(agree(ranks, j));
                    if (ranks < 3) continue;
                    for (const sabotage s : {sabotage::mean_of_means, sabotage::lost_micro_gradient,
                                             sabotage::bucket_by_arrival}) {
                        if (mlp && s == sabotage::mean_of_means) continue; // equal counts
                        j.wrong = s;
                        CHECK_FALSE(agree(ranks, j));
                    }
                }
}
