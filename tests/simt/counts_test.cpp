// SPDX-License-Identifier: MIT
// The counts of textbook cases, exactly.
#include "mpt/kernels/launch.cuh"
#include "mpt/simt/counting.hpp"

#include <cstddef>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace {

using namespace mpt::simt;
using mpt::launch;

__global__ void copy_every(float* y, const float* x, int stride, int offset) {
    const int i = (blockIdx.x * blockDim.x + threadIdx.x) * stride + offset;
    y[i] = x[i];
}
__global__ void copy_vectors(float4* y, const float4* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 v = x[i];
    y[i] = make_float4(v.x + 1, v.y, v.z, v.w);
}
__global__ void copy_halves(__half* y, const __half* x) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void same_address(float* y, const float* x) { y[threadIdx.x] = x[0]; }

template <int Pitch>
__global__ void column(float* y, const float* x) {
    __shared__ float tile[32][Pitch];
    for (int row = 0; row < 32; ++row) tile[row][threadIdx.x] = x[row * 32 + threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 32; ++k) sum += tile[threadIdx.x][k]; // lane: its row
    y[threadIdx.x] = sum;
}
template <class T>
__global__ void shared_vectors(T* y) {
    __shared__ T s[64];
    s[threadIdx.x] = T{};
    __syncwarp();
    y[threadIdx.x] = s[threadIdx.x];
}
__global__ void shared_broadcast(float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = 1;
    __syncwarp();
    y[threadIdx.x] = s[5] + s[threadIdx.x / 16];
}
__global__ void diverges(float* y, int mod) {
    const int t = threadIdx.x;
    if (t / mod % 2)
        y[t] = 1;
    else
        atomicAdd(y + t + 256, 2.0f); // no compiler makes one store of the two
    __syncthreads();
}
__global__ void loops(float* y) { // lane l: l / 8 rounds more than the first
    float sum = 0;
    for (unsigned i = 0; i <= threadIdx.x / 8; ++i) sum += y[i];
    y[32 + threadIdx.x] = sum;
}
__global__ void adds(unsigned* to, int apart) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&s[threadIdx.x % 4], 1u);
    atomicAdd(&to[threadIdx.x * apart], 1u);
}

struct fixture {
    fixture() {
        cudaMalloc(&x, 4096 * sizeof(float));
        cudaMalloc(&y, 4096 * sizeof(float));
        cudaMemset(x, 0, 4096 * sizeof(float));
        cudaMemset(y, 0, 4096 * sizeof(float));
    }
    ~fixture() {
        cudaFree(x);
        cudaFree(y);
    }
    float *x = nullptr, *y = nullptr;
};

} // namespace

TEST_CASE_FIXTURE(fixture, "sectors of loads and stores: stride 1, 2, 8, 32, and a wrong start") {
    const struct {
        int stride, offset;
        unsigned sectors; // of a warp
    } cases[] = {{1, 0, 4}, {2, 0, 8}, {8, 0, 32}, {32, 0, 32}, {1, 1, 5}, {1, 8, 4}};
    for (const auto& c : cases) {
        CAPTURE(c.stride);
        CAPTURE(c.offset);
        counting count;
        launch<copy_every>({2, 64}, y, x, c.stride, c.offset);
        CHECK(count.totals().global_load_requests == 4);
        CHECK(count.totals().global_load_sectors == 4 * c.sectors);
        CHECK(count.totals().global_store_requests == 4);
        CHECK(count.totals().global_store_sectors == 4 * c.sectors);
        CHECK(count.totals().sectors_a_load() == c.sectors);
        CHECK(count.totals().divergent_branches == 0);
    }
}

TEST_CASE_FIXTURE(fixture, "sectors: vectors, halves, one address") {
    counting count;
    launch<copy_vectors>({1, 64}, reinterpret_cast<float4*>(y), reinterpret_cast<const float4*>(x));
    CHECK(count.totals().global_load_requests == 2);
    CHECK(count.totals().global_load_sectors == 2 * 16);
    CHECK(count.totals().global_store_requests == 2);
    CHECK(count.totals().global_store_sectors == 2 * 16);
    count.clear();
    launch<copy_halves>({1, 32}, reinterpret_cast<__half*>(y), reinterpret_cast<const __half*>(x));
    CHECK(count.totals().global_load_requests == 1);
    CHECK(count.totals().global_load_sectors == 2);
    count.clear();
    launch<same_address>({1, 32}, y, x);
    CHECK(count.totals().global_load_sectors == 1);
    CHECK(count.totals().global_store_sectors == 4);
    count.clear();
    launch<copy_every>({1, 20}, y, x, 1, 0); // a partial warp
    CHECK(count.totals().global_load_requests == 1);
    CHECK(count.totals().global_load_sectors == 3);
}

TEST_CASE_FIXTURE(fixture, "banks: a column of tile[32][32] is 32-way, of tile[32][33] none") {
    counting count;
    launch<column<32>>({1, 32}, y, x);
    CHECK(count.totals().shared_store_requests == 32);
    CHECK(count.totals().shared_store_wavefronts == 32);
    CHECK(count.totals().shared_store_conflicts == 0);
    CHECK(count.totals().shared_load_requests == 32);
    CHECK(count.totals().shared_load_wavefronts == 32 * 32);
    CHECK(count.totals().shared_load_conflicts == 32 * 31);
    CHECK(count.totals().barriers == 1);
    count.clear();
    launch<column<33>>({1, 32}, y, x);
    CHECK(count.totals().shared_load_wavefronts == 32);
    CHECK(count.totals().shared_load_conflicts == 0);
    count.clear();
    launch<column<34>>({1, 32}, y, x); // rows 0 and 16 in one bank
    CHECK(count.totals().shared_load_wavefronts == 32 * 2);
}

TEST_CASE_FIXTURE(fixture, "banks: 8 bytes in two halves, 16 in four quarters, broadcast") {
    counting count;
    launch<shared_vectors<float2>>({1, 64}, reinterpret_cast<float2*>(y));
    CHECK(count.totals().shared_load_requests == 2);
    CHECK(count.totals().shared_load_wavefronts == 2 * 2);
    CHECK(count.totals().shared_load_conflicts == 0);
    count.clear();
    launch<shared_vectors<float4>>({1, 64}, reinterpret_cast<float4*>(y));
    CHECK(count.totals().shared_load_requests == 2);
    CHECK(count.totals().shared_load_wavefronts == 2 * 4);
    CHECK(count.totals().shared_load_conflicts == 0);
    count.clear();
    launch<shared_broadcast>({1, 32}, y);
    CHECK(count.totals().shared_load_requests == 2);
    CHECK(count.totals().shared_load_wavefronts == 2);
}

TEST_CASE_FIXTURE(fixture, "branches: only those that divide a warp") {
    counting count;
    launch<diverges>({1, 64}, y, 32);
    CHECK(count.totals().divergent_branches == 0);
    CHECK(count.totals().global_store_requests == 1);
    CHECK(count.totals().global_atomic_requests == 1);
    count.clear();
    launch<diverges>({1, 64}, y, 1);
    CHECK(count.totals().divergent_branches == 2); // of two warps
    CHECK(count.totals().global_store_requests == 2);
    CHECK(count.totals().global_atomic_requests == 2);
    CHECK(count.totals().barriers == 1);
    count.clear();
    launch<loops>({1, 32}, y);
    CHECK(count.totals().divergent_branches ==
          3); // 8 lanes leave after 1, 2, 3 and the rest after 4
    CHECK(count.totals().global_load_requests == 4);
}

TEST_CASE_FIXTURE(fixture, "atomics: requests, and lanes that wait for each other") {
    counting count;
    launch<adds>({1, 32}, reinterpret_cast<unsigned*>(y), 1);
    CHECK(count.totals().shared_atomic_requests == 1);
    CHECK(count.totals().global_atomic_requests == 1);
    CHECK(count.totals().atomic_turns == 8 + 1);
    count.clear();
    launch<adds>({1, 32}, reinterpret_cast<unsigned*>(y), 0);
    CHECK(count.totals().atomic_turns == 8 + 32);
}

TEST_CASE_FIXTURE(fixture, "launches") {
    launch<copy_every>({1, 32}, y, x, 1, 0); // before
    counting count;
    CHECK(count.totals().launches == 0);
    launch<copy_every>({2, 64}, y, x, 1, 0);
    launch<same_address>({1, 32}, y, x);
    CHECK(count.totals().launches == 2);
}

TEST_CASE_FIXTURE(fixture, "the same counts in any order of the threads") {
    std::vector<unsigned long long> found[2];
    for (const unsigned seed : {0u, 5u}) {
        settings().order_seed = seed;
        counting count;
        launch<column<32>>({1, 32}, y, x);
        launch<diverges>({1, 64}, y, 1);
        launch<loops>({1, 32}, y);
        for (const auto& m : access_counts::metrics())
            found[seed != 0].push_back(count.totals().*m.member);
    }
    settings().order_seed = 0;
    CHECK(found[0] == found[1]);
}

TEST_CASE_FIXTURE(fixture, "a line of the source has its own counts") {
    counting count;
    launch<copy_every>({1, 32}, y, x, 32, 0);
    bool seen = false;
    for (const auto& l : count.lines()) {
        if (l.counts.global_load_requests == 0) continue;
        seen = true;
        CHECK(l.at.file.substr(l.at.file.rfind('/') + 1) == "counts_test.cpp");
        CHECK(l.at.line == 18);
        CHECK(l.counts.global_load_sectors == 32);
    }
    CHECK(seen);
    CHECK(count.table().find("counts_test.cpp:18") != std::string::npos);
    CHECK_THROWS_WITH(counting(), "counting: somebody counts already; one at a time");
}
