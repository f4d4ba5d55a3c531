// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/kernels.hpp" // counted

#include "mpt/simt/device_buffer.hpp" // device_buffer

#include <vector>

using namespace grade;

namespace {

struct outcome {
    std::vector<float> sums;
    mpt::simt::access_counts counts;
};

outcome run(const std::vector<float>& x, int blocks, int threads) {
    mpt::simt::device_buffer<float> in(x), out{std::size_t(blocks)};
    outcome o;
    o.counts = counted([&] { block_sums(out.data(), in.data(), blocks, threads); });
    o.sums = out.read();
    return o;
}

} // namespace

PART("each block has its sum", 4) {
    const int threads = int(exercise::parameter("threads"));
    for (const int blocks : {1, 3, 7}) {
        const std::vector<float> x = any().list(std::size_t(blocks * threads));
        const outcome o = run(x, blocks, threads);
        for (int b = 0; b < blocks; ++b) {
            double sum = 0, size = 0;
            for (int t = 0; t < threads; ++t) {
                const double v = x[std::size_t(b * threads + t)];
                sum += v, size += std::abs(v);
            }
            // a tree of k rounds errs by at most k roundings of the sum of magnitudes
            const double most = std::log2(threads) * 0x1p-24 * size;
            within("the sum", o.sums[std::size_t(b)], sum, most,
                   mpt::join("log2(", threads, ") roundings of the sum of magnitudes"),
                   "every number is added once", mpt::join("block ", b, " of ", blocks));
        }
    }
}

PART("no race, no barrier that some threads miss", 3) {
    const int threads = int(exercise::parameter("threads"));
    run(any().list(std::size_t(2 * threads)), 2, threads); // the emulator throws what it finds
    const outcome o = run(std::vector<float>(std::size_t(threads), 1.0f), 1, threads);
    equals("the sum of ones", o.sums[0], float(threads), "a race may lose some of them");
}

PART("a barrier a round, and one before the first", 3) {
    const int threads = int(exercise::parameter("threads"));
    const outcome o = run(any().list(std::size_t(threads)), 1, threads);
    int rounds = 0;
    while ((1 << rounds) < threads) ++rounds;
    equals("barriers", o.counts.barriers, static_cast<unsigned long long>(rounds + 1),
           "each round reads what the one before has written, the first what was loaded");
}
