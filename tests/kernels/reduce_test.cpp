// SPDX-License-Identifier: MIT
// warp_reduce.cuh, block_reduce.cuh and reduce.cuh.
#include "mpt/kernels/reduce.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

__global__ void warps_kernel(float* sums, float* largest, const float* x) {
    const unsigned i = threadIdx.x;
    sums[i] = warp_sum(x[i]);
    largest[i] = warp_max(x[i]);
}

// Several in a row, so that a barrier which is missing between them shows.
__global__ void blocks_kernel(float* to, const float* x, int rounds) {
    const unsigned i = threadIdx.x;
    float sum = 0;
    for (int r = 0; r < rounds; ++r)
        sum += block_sum(x[unsigned(r) * blockDim.x + i]) +
               block_max(x[unsigned(r) * blockDim.x + i], -infinity);
    to[i] = sum;
}

__global__ void tree_kernel(float* to, const float* x) {
    to[threadIdx.x] = block_sum_tree(x[threadIdx.x], mpt::dynamic_shared<float>());
}

} // namespace

TEST_CASE("a warp's sum and maximum, in all 32 threads alike") {
    const auto x = checks::numbers<float>(96, 1, 5);
    const array<float> on(x);
    array<float> sums(96), largest(96);
    mpt::launch<warps_kernel>({1, 96, 0, stream()}, sums.data(), largest.data(),
                              static_cast<const float*>(on.data()));
    const auto s = sums.read(), l = largest.read();
    for (std::size_t w = 0; w < 3; ++w) {
        // in the butterfly's order, which all threads share
        std::vector<float> v(x.begin() + long(32 * w), x.begin() + long(32 * w + 32));
        float most = v[0];
        for (const float a : v) most = std::max(most, a);
        for (std::size_t half = 16; half > 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) v[i] = v[i] + v[i + half];
        for (std::size_t i = 0; i < 32; ++i) {
            CHECK(s[32 * w + i] == v[0]);
            CHECK(l[32 * w + i] == most);
        }
    }
}

TEST_CASE("a block's sum and maximum, of any number of warps, round after round") {
    for (const unsigned threads : {32u, 64u, 96u, 256u, 1024u}) {
        const int rounds = 5;
        const auto x = checks::numbers<float>(threads * unsigned(rounds), 2, 5);
        const array<float> on(x);
        array<float> to(threads);
        mpt::launch<blocks_kernel>({1, threads, 0, stream()}, to.data(),
                                   static_cast<const float*>(on.data()), rounds);
        double sum = 0, size = 0;
        for (std::size_t r = 0; r < std::size_t(rounds); ++r) {
            double most = -1e9;
            for (std::size_t i = 0; i < threads; ++i) {
                sum += double(x[r * threads + i]);
                size += std::fabs(double(x[r * threads + i]));
                most = std::max(most, double(x[r * threads + i]));
            }
            sum += most;
            size += std::fabs(most);
        }
        // 10 roundings in a block's sum, 2 a round outside: each 2^-24 of at most `size`
        const std::vector<double> wanted(threads, sum);
        const auto found = to.read();
        CHECK(difference(found, wanted, [&](std::size_t) { return 20 * size * 0x1p-24; }) == "");
        CHECK(difference(found, std::vector<float>(threads, found[0])) == ""); // alike in all
    }
}

TEST_CASE("version 1, the tree, has the same sum") {
    for (const unsigned threads : {32u, 256u}) {
        const auto x = checks::numbers<float>(threads, 3, 5);
        const array<float> on(x);
        array<float> to(threads);
        mpt::launch<tree_kernel>({1, threads, threads * sizeof(float), stream()}, to.data(),
                                 static_cast<const float*>(on.data()));
        double sum = 0, size = 0;
        for (const float a : x) sum += double(a), size += std::fabs(double(a));
        CHECK(difference(to.read(), std::vector<double>(threads, sum), [&](std::size_t) {
                  return 10 * size * 0x1p-24;
              }) == "");
    }
}

TEST_CASE("sum: fp64, any length, the same bits every time") {
    for (const std::size_t n : {0, 1, 31, 33, 257, 1600, 1601, 8192, 50001})
        for (const std::size_t offset : {0, 1}) {
            const auto x = checks::numbers<float>(n, 4, 3, 1);
            const array<float> on(x, offset);
            const scratch room(sum_bytes(n));
            double exact = 0, size = 0;
            for (const float a : x) exact += double(a), size += std::fabs(double(a));
            std::vector<double> first;
            for (int again = 0; again < 2; ++again) {
                array<double> result(1);
                sum(result, on, n, room, stream());
                const auto found = result.read();
                // n roundings of 2^-53 here, as many in `exact`
                CHECK(std::fabs(found[0] - exact) <= 2 * double(n) * size * 0x1p-53);
                if (first.empty()) first = found;
                CHECK(difference(found, first) == "");
            }
        }
}

TEST_CASE("the same bits in any order of threads") {
    const auto x = checks::numbers<float>(9001, 5, 3);
    const array<float> on(x);
    const scratch room(sum_bytes(x.size()));
    CHECK(in_all_orders([&] {
              array<double> result(1);
              sum(result, on, x.size(), room, stream());
              return result.read();
          }) == "");
}

#if defined(MPT_SIMT_CHECK)
namespace {

// Sabotage: block_fold without its second, or its first barrier, twice in a row.
template <bool first, bool second>
__global__ void without_barrier_kernel(float* to, const float* x) {
    __shared__ float of_warp[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int round = 0; round < 2; ++round) {
        float sum = warp_sum(x[threadIdx.x]);
        if (lane == 0) of_warp[warp] = sum;
        if (first) __syncthreads();
        sum = warp_sum(lane < warps ? of_warp[lane] : 0.0f);
        if (second) __syncthreads();
        to[threadIdx.x] = sum;
    }
}

} // namespace

TEST_CASE("either barrier of block_fold left out is a race") {
    const array<float> x(checks::numbers<float>(96, 1));
    array<float> to(96);
    const float* const from = x.data();
    CHECK(faults("racecheck", [&] {
              mpt::launch<without_barrier_kernel<true, true>>({1, 96, 0, stream()}, to.data(),
                                                              from);
          }) == 0);
    CHECK(faults("racecheck", [&] {
              mpt::launch<without_barrier_kernel<true, false>>({1, 96, 0, stream()}, to.data(),
                                                               from);
          }) > 0);
    CHECK(faults("racecheck", [&] {
              mpt::launch<without_barrier_kernel<false, true>>({1, 96, 0, stream()}, to.data(),
                                                               from);
          }) > 0);
}
#endif
