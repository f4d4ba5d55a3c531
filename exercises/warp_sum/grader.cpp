// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/kernels.hpp" // counted

#include "mpt/simt/device_buffer.hpp" // device_buffer

using namespace grade;

namespace {

struct outcome {
    std::vector<float> sums;
    mpt::simt::access_counts counts;
};
outcome run(const std::vector<float>& x) {
    mpt::simt::device_buffer<float> in(x), out{x.size()};
    outcome o;
    o.counts = counted([&] { warp_sums(out.data(), in.data(), int(x.size())); });
    o.sums = out.read();
    return o;
}

} // namespace

PART("every lane has the sum of its warp", 5) {
    for (const std::size_t n : {32u, 96u, 256u, 1024u}) {
        const std::vector<float> x = any().list(n);
        const outcome o = run(x);
        for (std::size_t i = 0; i < n; ++i) {
            double sum = 0, size = 0;
            for (std::size_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k)
                sum += x[k], size += std::abs(x[k]);
            within("the sum", o.sums[i], sum, 5 * 0x1p-24 * size,
                   "5 roundings of the sum of magnitudes", "each of the 32 numbers once",
                   mpt::join("lane ", i % 32, " of warp ", i / 32));
        }
    }
}
PART("all lanes have the same bits", 1) {
    const outcome o = run(any().list(64));
    for (std::size_t i = 1; i < 64; ++i)
        equals(mpt::join("lane ", i % 32, " beside lane 0"), o.sums[i], o.sums[i / 32 * 32],
               "xor pairs lanes both ways: what one adds the other adds, too");
}
PART("no shared memory, no barrier, each number read once", 2) {
    const outcome o = run(any().list(256));
    equals("barriers", o.counts.barriers, 0ull, "a warp needs none");
    equals("accesses to shared memory",
           o.counts.shared_load_requests + o.counts.shared_store_requests, 0ull,
           "registers are enough");
    equals("sectors read of 256 numbers", o.counts.global_load_sectors, 32ull, "4 a warp, once");
}
