// SPDX-License-Identifier: MIT
// Orders of threads, warps and blocks: a seed shows a race, a right kernel does not depend on it,
// nor on the number of system threads.
#include "mpt/kernels/launch.cuh"
#include "mpt/simt/device_buffer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

using namespace mpt::kernels;

namespace {

__global__ void missing_barrier_kernel(int* to, const int* x) { // a barrier was forgotten
    __shared__ int there[96];
    there[threadIdx.x] = x[blockIdx.x * 96 + threadIdx.x];
    to[blockIdx.x * 96 + threadIdx.x] = there[95 - threadIdx.x];
}
__global__ void right_kernel(int* to, const int* x) {
    __shared__ int there[96];
    there[threadIdx.x] = x[blockIdx.x * 96 + threadIdx.x];
    __syncthreads();
    const int sum = __shfl_xor_sync(0xFFFFFFFF, there[95 - threadIdx.x], 3);
    to[blockIdx.x * 96 + threadIdx.x] = __shfl_xor_sync(0xFFFFFFFF, sum, 3);
}
__global__ void turn_kernel(int* turn, int* count) { // who comes when
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    turn[atomicAdd(count, 1)] = i;
}
__global__ void after_barrier_kernel(int* turn, int* count) {
    __syncthreads();
    turn[atomicAdd(count, 1)] = int(threadIdx.x);
}

std::vector<int> turns(void (*run)(int*, int*), std::size_t n, unsigned seed) {
    settings().order_seed = seed;
    device_buffer<int> turn(n), count(std::vector<int>{0});
    run(turn.data(), count.data());
    settings().order_seed = 0;
    return turn.read();
}
void blocks(int* turn, int* count) { mpt::launch<turn_kernel>({97, 1}, turn, count); }
void threads(int* turn, int* count) { mpt::launch<turn_kernel>({1, 1000}, turn, count); }
void after(int* turn, int* count) { mpt::launch<after_barrier_kernel>({1, 1000}, turn, count); }

template <auto Kernel>
std::vector<int> results(unsigned seed, int system_threads) {
    std::vector<int> x(96 * 20);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = int(i * i % 1009);
    const device_buffer<int> on(x);
    device_buffer<int> to(x.size());
    const int* from = on.data();
    settings().order_seed = seed;
    settings().threads = system_threads;
    mpt::launch<Kernel>({20, 96}, to.data(), from);
    settings().order_seed = 0;
    return to.read();
}

} // namespace

TEST_CASE("a kernel that is right has the same bits in every order, on any number of threads") {
    const auto expected = results<right_kernel>(0, 1);
    CHECK(expected[0] == 95 * 95 % 1009);
    for (const unsigned seed : {0u, 1u, 2u, 3u, 4000000000u})
        for (const int n : {1, 2, 5}) CHECK(results<right_kernel>(seed, n) == expected);
}

TEST_CASE("sabotage: without the barrier four orders do not agree") {
    std::set<std::vector<int>> different;
    for (const unsigned seed : {1u, 2u, 3u, 4u})
        different.insert(results<missing_barrier_kernel>(seed, 1));
    CHECK(different.size() > 1);
}

TEST_CASE("seed 0 is ascending; others mix blocks, warps and lanes, each in its own way") {
    settings().threads = 1;
    for (const auto run : {blocks, threads, after}) {
        const std::size_t n = run == blocks ? 97 : 1000;
        std::vector<int> ascending(n);
        for (std::size_t i = 0; i < n; ++i) ascending[i] = int(i);
        CHECK(turns(run, n, 0) == ascending);
        std::set<std::vector<int>> orders;
        for (const unsigned seed : {1u, 2u, 3u, 4u}) {
            const auto order = turns(run, n, seed);
            CHECK(turns(run, n, seed) == order); // the seed is all there is to it
            orders.insert(order);
            auto sorted = order;
            std::sort(sorted.begin(), sorted.end());
            CHECK(sorted == ascending); // everybody once
            CHECK(order != ascending);
        }
        CHECK(orders.size() == 4);
    }
    // lanes in a warp, and warps in the block: both are mixed
    const auto order = turns(threads, 1000, 7);
    CHECK(order[0] / 32 != order[999] / 32);
    CHECK(std::abs(order[1] - order[0]) + std::abs(order[2] - order[1]) > 2);
}
