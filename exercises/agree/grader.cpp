// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/ranks.hpp" // on_ranks

using namespace grade;

namespace {

constexpr float rate = 0.1f;

struct all_ranks {
    std::vector<float> start;
    std::vector<std::vector<float>> w;
    std::vector<run> state;
    std::vector<int> applied;
};

// Three steps; in step 1 an element of rank `bad`'s gradient is infinite, -1: of none.
all_ranks tried(int ranks, std::size_t n, int bad, std::size_t element,
                std::vector<std::vector<std::vector<float>>>& g) {
    all_ranks all;
    all.start = any().list(n);
    all.w.assign(std::size_t(ranks), all.start);
    all.state.resize(std::size_t(ranks));
    all.applied.resize(std::size_t(ranks));
    g.assign(3, {});
    for (auto& of_step : g)
        for (int r = 0; r < ranks; ++r) of_step.push_back(any().list(n, 1024));
    if (bad >= 0) g[1][std::size_t(bad)][element] = HUGE_VALF;
    on_ranks(ranks, [&](mpt::communicator& comm) {
        const auto me = std::size_t(comm.rank());
        for (int k = 0; k < 3; ++k)
            all.applied[me] += step(comm, all.state[me], all.w[me], g[std::size_t(k)][me], rate);
    });
    return all;
}

// Rank 0's weights are those of the steps that were not skipped, each with the scale it had.
void moved(const std::string& where, const all_ranks& all, int ranks, bool skips,
           const std::vector<std::vector<std::vector<float>>>& g) {
    for (std::size_t i = 0; i < all.start.size(); ++i) {
        double w = all.start[i], size = std::abs(w);
        for (std::size_t k = 0; k < 3; ++k) {
            if (skips && k == 1) continue;
            const double of = rate / (skips && k == 2 ? 512 : 1024);
            for (const std::vector<float>& x : g[k]) {
                w -= of * double(x[i]);
                size += of * std::abs(double(x[i]));
            }
        }
        within("w after three steps, " + where, all.w[0][i], w, 3 * (ranks + 3) * 0x1p-24 * size,
               "three times a sum over the ranks, a quotient, a product and a difference in fp32",
               "each step is w -= rate * sum / scale",
               mpt::join("element ", i, " of ", all.start.size()));
    }
}

} // namespace

PART("without an overflow all ranks have the sum's step", 3) {
    for (const int ranks : {1, 2, 3, 4}) {
        std::vector<std::vector<std::vector<float>>> g;
        const std::size_t n = std::size_t(ranks) * 5;
        const all_ranks all = tried(ranks, n, -1, 0, g);
        for (std::size_t r = 0; r < std::size_t(ranks); ++r) {
            equals(mpt::join("steps applied on rank ", r), all.state[r].applied, 3L,
                   "nothing was infinite");
            same<float>(mpt::join("w on rank ", r, " beside rank 0's"), all.w[r], all.w[0],
                        "all gather the same");
        }
        moved(mpt::join(ranks, " ranks"), all, ranks, false, g);
    }
}
PART("an overflow in another rank's shard skips the step on all", 5) {
    for (const int ranks : {2, 3, 4, 7})
        for (int bad = 0; bad < ranks; ++bad) {
            std::vector<std::vector<std::vector<float>>> g;
            const std::size_t n = std::size_t(ranks) * 5;
            const std::size_t element = std::size_t(any().between(0, int(n) - 1));
            const all_ranks all = tried(ranks, n, bad, element, g);
            for (std::size_t r = 0; r < std::size_t(ranks); ++r) {
                const std::string where =
                    mpt::join("rank ", r, " of ", ranks, ", infinity on rank ", bad, ", element ",
                              element, " of ", n);
                equals("steps applied, " + where, all.state[r].applied, 2L,
                       "one of three is skipped, everywhere");
                equals("scale, " + where, all.state[r].scale, 512.0f, "halved once, everywhere");
                equals("what step returned, added up, " + where, all.applied[r], 2,
                       "false for the skipped one");
                same<float>("w, " + where, all.w[r], all.w[0],
                            "ranks that decide alone drift apart");
            }
            moved(mpt::join(ranks, " ranks, step 1 skipped"), all, ranks, true, g);
        }
}
PART("a skipped step changes nothing and sends no weights", 2) {
    std::vector<float> before = any().list(8);
    on_ranks(4, [&](mpt::communicator& comm) {
        std::vector<float> w = before, g(8, comm.rank() == 2 ? HUGE_VALF : 1.0f);
        run state;
        step(comm, state, w, g, rate);
        same<float>("w after a skipped step", w, before, "not a bit");
        equals("all_gathers of a skipped step", comm.sent.of(mpt::verb::all_gather).calls,
               std::size_t(0), "there is nothing new to gather");
    });
}
