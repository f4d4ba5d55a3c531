// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/ranks.hpp" // on_ranks

using namespace grade;

namespace {

struct outcome {
    std::vector<std::vector<float>> w;
    std::vector<float> want;
    std::vector<mpt::sent> reduce, gather, all;
};

// Four steps; the same ones computed here with all the momentum.
outcome run(int ranks, std::size_t shard) {
    const std::size_t n = shard * std::size_t(ranks);
    outcome o;
    o.want = any().list(n);
    o.w.assign(std::size_t(ranks), o.want);
    std::vector<std::vector<std::vector<float>>> g(4);
    for (auto& of_step : g)
        for (int r = 0; r < ranks; ++r) of_step.push_back(any().list(n));
    std::vector<float> m(n);
    for (const auto& of_step : g)
        for (std::size_t i = 0; i < n; ++i) {
            float sum = of_step[0][i];
            for (int r = 1; r < ranks; ++r) sum += of_step[std::size_t(r)][i];
            m[i] = 0.9f * m[i] + sum;
            o.want[i] -= 0.1f * m[i];
        }
    for (auto* list : {&o.reduce, &o.gather, &o.all}) list->resize(std::size_t(ranks));
    on_ranks(ranks, [&](mpt::communicator& comm) {
        const auto me = std::size_t(comm.rank());
        std::vector<float> momentum(shard);
        for (const auto& of_step : g) step(comm, o.w[me], of_step[me], momentum, 0.1f);
        comm.barrier();
        o.reduce[me] = comm.sent.of(mpt::verb::reduce_scatter);
        o.gather[me] = comm.sent.of(mpt::verb::all_gather);
        o.all[me] = comm.sent.of(mpt::verb::all_reduce);
    });
    return o;
}

} // namespace

PART("the bits of a rank that keeps everything", 6) {
    for (const int ranks : {1, 2, 3, 4, 7})
        for (const std::size_t shard : {1u, 13u}) {
            const outcome o = run(ranks, shard);
            for (int r = 0; r < ranks; ++r)
                same<float>(mpt::join("w on rank ", r, " of ", ranks, " after four steps"),
                            o.w[std::size_t(r)], o.want,
                            "sums in rank order, the same update, and everyone has every shard");
        }
}
PART("every verb once a step", 3) {
    const outcome o = run(4, 8);
    for (std::size_t r = 0; r < 4; ++r) {
        equals(mpt::join("reduce_scatters of rank ", r, " in four steps"), o.reduce[r].calls,
               std::size_t(4), "one a step");
        equals(mpt::join("all_gathers of rank ", r), o.gather[r].calls, std::size_t(4),
               "one a step");
        equals(mpt::join("all_reduces of rank ", r), o.all[r].calls, std::size_t(0),
               "it would bring gradients that nobody here needs");
    }
}
PART("2 (N - 1) / N of the weights are sent", 3) {
    for (const int ranks : {2, 3, 7}) {
        const outcome o = run(ranks, 10);
        for (int r = 0; r < ranks; ++r)
            equals(mpt::join("elements that rank ", r, " of ", ranks, " sends a step"),
                   (o.reduce[std::size_t(r)].elements + o.gather[std::size_t(r)].elements) / 4,
                   std::size_t(2 * (ranks - 1) * 10), "a shard to each other rank, twice");
    }
}
