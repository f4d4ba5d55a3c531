// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/ranks.hpp" // on_ranks

#include <cmath>

using namespace grade;

namespace {

// x of every rank, and what the ring made of it.
struct ring {
    std::vector<std::vector<float>> before, after;
    std::vector<mpt::sent> sent;
};

ring run(int ranks, std::size_t chunk) {
    ring all;
    const std::size_t n = chunk * std::size_t(ranks);
    for (int r = 0; r < ranks; ++r) all.before.push_back(any().list(n));
    all.after = all.before;
    all.sent.resize(std::size_t(ranks));
    on_ranks(ranks, [&](mpt::communicator& comm) {
        const auto me = std::size_t(comm.rank());
        std::vector<float> room(chunk);
        ring_all_reduce(comm, all.after[me], room);
        comm.barrier();
        all.sent[me] = comm.sent.of(mpt::verb::send);
    });
    return all;
}

} // namespace

PART("every rank has the sum", 5) {
    for (const int ranks : {1, 2, 3, 4, 7})
        for (const std::size_t chunk : {std::size_t(1), std::size_t(13)}) {
            const ring all = run(ranks, chunk);
            for (int r = 0; r < ranks; ++r)
                for (std::size_t i = 0; i < all.before[0].size(); ++i) {
                    double sum = 0, size = 0;
                    for (const auto& x : all.before) sum += x[i], size += std::abs(x[i]);
                    within(mpt::join("x on rank ", r, " of ", ranks), all.after[std::size_t(r)][i],
                           sum, (ranks - 1) * 0x1p-24 * size,
                           mpt::join(ranks - 1, " roundings of the sum of magnitudes"),
                           "every rank's number is added once to every chunk",
                           mpt::join("element ", i, " of ", all.before[0].size()));
                }
        }
}

PART("all ranks have the same bits", 2) {
    const ring all = run(4, 33);
    for (std::size_t r = 1; r < 4; ++r)
        same<float>(mpt::join("x on rank ", r, " beside rank 0's"), all.after[r], all.after[0],
                    "a chunk is added up on one way around the ring, and then copied");
}

PART("2 (N - 1) / N of x is sent, in 2 (N - 1) messages", 5) {
    for (const int ranks : {2, 3, 4, 7}) {
        const ring all = run(ranks, 10);
        for (int r = 0; r < ranks; ++r) {
            equals(mpt::join("elements that rank ", r, " of ", ranks, " has sent"),
                   all.sent[std::size_t(r)].elements, std::size_t(2 * (ranks - 1) * 10),
                   "a chunk a round, not the whole of x");
            equals(mpt::join("messages of rank ", r, " of ", ranks),
                   all.sent[std::size_t(r)].messages, std::size_t(2 * (ranks - 1)),
                   "N - 1 rounds that add and N - 1 that copy");
        }
    }
}
