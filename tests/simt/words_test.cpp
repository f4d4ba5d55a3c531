// SPDX-License-Identifier: MIT
// The words of a kernel: places, shared memory, barriers, warps, atomics. What CUDA defines, on the
// emulator and under CUDA alike.
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace rig;

namespace {

__global__ void places_kernel(unsigned* to) {
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    to[block * threads + thread] = threadIdx.x | threadIdx.y << 5 | threadIdx.z << 10 |
                                   blockIdx.x << 16 | blockIdx.y << 20 | blockIdx.z << 24;
}

// Static and dynamic shared memory; what one thread writes another reads after the barrier.
__global__ void reverse_kernel(float* to, const float* x) {
    __shared__ float there[64];
    float* back = mpt::dynamic_shared<float>();
    const unsigned i = threadIdx.x, n = blockDim.x, first = blockIdx.x * n;
    there[i] = x[first + i];
    __syncthreads();
    back[n - 1 - i] = 2 * there[n - 1 - i] + there[i];
    __syncthreads();
    to[first + i] = back[i];
}

__global__ void tile_kernel(float* to, const float* x) { // (32,32) transposed
    __shared__ float tile[32][33];
    for (unsigned r = threadIdx.y; r < 32; r += blockDim.y)
        tile[r][threadIdx.x] = x[r * 32 + threadIdx.x];
    __syncthreads();
    for (unsigned r = threadIdx.y; r < 32; r += blockDim.y)
        to[r * 32 + threadIdx.x] = tile[threadIdx.x][r];
}

__global__ void count_kernel(int* to) {
    const int i = int(threadIdx.x);
    const int count = __syncthreads_count(i % 3 == 0);
    const int all = __syncthreads_and(i < 1000), not_all = __syncthreads_and(i != 5);
    const int one = __syncthreads_or(i == 7), none = __syncthreads_or(i > 1000);
    to[i] = count * 16 + (all != 0) + 2 * (not_all != 0) + 4 * (one != 0) + 8 * (none != 0);
}

template <class T>
__global__ void shuffle_kernel(T* to, int width) { // 5 results a lane
    const unsigned all = 0xFFFFFFFF;
    const T v = T(threadIdx.x + 100);
    T* mine = to + 5 * threadIdx.x;
    mine[0] = __shfl_sync(all, v, 3, width);
    mine[1] = __shfl_up_sync(all, v, 2, width);
    mine[2] = __shfl_down_sync(all, v, 3, width);
    mine[3] = __shfl_xor_sync(all, v, 5, width);
    mine[4] = __shfl_sync(all, v, int(threadIdx.x) * 7, width); // every lane from another one
}

// Half of the warp goes its own way, with masks that say so.
__global__ void parted_kernel(unsigned* to) {
    const unsigned lane = threadIdx.x % 32;
    if (lane < 16) {
        const unsigned below = __ballot_sync(0x0000FFFF, lane % 2);
        to[threadIdx.x] = below + unsigned(__shfl_xor_sync(0x0000FFFF, int(lane), 1));
    } else {
        const unsigned above = __ballot_sync(0xFFFF0000, lane % 3 == 0);
        __syncwarp(0xFFFF0000);
        to[threadIdx.x] = above + unsigned(__shfl_down_sync(0xFFFF0000, int(lane), 1));
    }
}

__global__ void votes_kernel(unsigned* to) { // 8 results a thread
    const unsigned i = threadIdx.x, all = 0xFFFFFFFF;
    unsigned* mine = to + 8 * i;
    mine[0] = __ballot_sync(all, i % 5 == 1);
    mine[1] = unsigned(__any_sync(all, i % 32 == 9) != 0) |
              unsigned(__any_sync(all, i == 10000) != 0) << 1 |
              unsigned(__all_sync(all, i < 10000) != 0) << 2 |
              unsigned(__all_sync(all, i % 32 != 9) != 0) << 3;
    mine[2] = __match_any_sync(all, i % 3);
    mine[3] = unsigned(__reduce_add_sync(all, int(i) - 20));
    mine[4] = unsigned(__reduce_min_sync(all, int(i) - 20));
    mine[5] = __reduce_max_sync(all, i ^ 21);
    mine[6] = __reduce_and_sync(all, i | 4) + __reduce_or_sync(all, 1u << (i % 7));
    mine[7] = __reduce_xor_sync(all, i * i);
}

// A block of 48: the second warp has 16 lanes, and a mask that names just these.
__global__ void partial_kernel(unsigned* to) {
    const unsigned mask = threadIdx.x < 32 ? 0xFFFFFFFF : 0x0000FFFF;
    const unsigned here = __ballot_sync(mask, 1);
    const unsigned sum = __reduce_add_sync(mask, threadIdx.x);
    const unsigned next = unsigned(__shfl_down_sync(mask, int(threadIdx.x), 1, 16));
    __syncwarp(mask);
    to[threadIdx.x] = here ^ sum << 8 ^ next << 20;
}

__global__ void active_kernel(unsigned* to) {
    if (threadIdx.x % 32 < 20) to[threadIdx.x] = __activemask();
}

__global__ void atomics_kernel(int* i, unsigned* u, float* f, double* d, unsigned long long* l) {
    const int n = int(blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(i, n);
    atomicSub(i + 1, 1);
    atomicAdd(i + 4, 1); // past the largest
    atomicSub(i + 5, 1);
    atomicMax(i + 2, n % 777);
    atomicMin(i + 3, -n);
    atomicAdd(u, 1u);
    atomicOr(u + 1, 1u << n % 32);
    atomicAnd(u + 2, ~(1u << n % 16));
    atomicXor(u + 3, unsigned(n));
    atomicInc(u + 4, 99u);
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicAdd(l, 1ull << 33);
    atomicMax(l + 1, static_cast<unsigned long long>(n) << 20);
    if (atomicCAS(u + 5, 0u, unsigned(n) + 1) == 0) u[6] = unsigned(n) + 1; // one of them
    if (atomicExch(u + 7, unsigned(n)) == 12345u) u[8] = 1;                  // the first
}

// What the last block to finish adds up: a fence, and a count that names it.
__global__ void last_block_kernel(unsigned* parts, unsigned* done, unsigned* sum) {
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        if (atomicAdd(done, 1u) == gridDim.x - 1) {
            unsigned total = 0;
            for (unsigned b = 0; b < gridDim.x; ++b)
                total += *const_cast<volatile unsigned*>(parts + b);
            *sum = total;
        }
    }
}

__global__ void vectors_kernel(float* to, const float* x, unsigned short* halves) {
    const unsigned i = threadIdx.x;
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    const float2 w = __ldg(reinterpret_cast<const float2*>(x) + i);
    reinterpret_cast<float4*>(to)[i] = make_float4(v.w, v.z, w.y, w.x);
    // 16 bytes that are eight numbers of 16 bits
    uint4 eight = reinterpret_cast<uint4*>(halves)[i];
    halves[8 * i] = 7; // overtakes no load
    eight.y ^= eight.x;
    reinterpret_cast<uint4*>(halves)[i] = make_uint4(eight.x, eight.y, eight.w, eight.z);
    halves[8 * i + 1] = static_cast<unsigned short>(halves[8 * i + 2] + 1); // nor a store
}

} // namespace

TEST_CASE("every thread of a grid in one, two and three dimensions, once") {
    const dim3 shapes[][2] = {{dim3(1), dim3(1)},         {dim3(7), dim3(31)},
                              {dim3(3, 5), dim3(9, 4)},   {dim3(2, 3, 4), dim3(5, 3, 7)},
                              {dim3(1, 1, 3), dim3(1, 2, 9)}, {dim3(2), dim3(32, 32)}};
    for (const auto& s : shapes) {
        const dim3 grid = s[0], block = s[1];
        const unsigned blocks = grid.x * grid.y * grid.z, threads = block.x * block.y * block.z;
        array<unsigned> to(blocks * threads);
        mpt::launch<places_kernel>({grid, block, 0, stream()}, to.data());
        const auto found = to.read();
        std::vector<unsigned> expected;
        for (unsigned b = 0; b < blocks; ++b)
            for (unsigned t = 0; t < threads; ++t)
                expected.push_back(t % block.x | t / block.x % block.y << 5 |
                                   t / block.x / block.y << 10 | b % grid.x << 16 |
                                   b / grid.x % grid.y << 20 | b / grid.x / grid.y << 24);
        CHECK(difference(found, expected) == "");
    }
}

TEST_CASE("shared memory, static and dynamic, is one for each block") {
    for (const unsigned threads : {1u, 33u, 64u}) {
        const auto x = checks::numbers<float>(threads * 5, 1);
        const array<float> on(x);
        array<float> to(threads * 5);
        const float* from = on.data();
        mpt::launch<reverse_kernel>({5, threads, threads * sizeof(float), stream()}, to.data(),
                                    from);
        std::vector<float> expected;
        for (unsigned b = 0; b < 5; ++b)
            for (unsigned i = 0; i < threads; ++i)
                expected.push_back(2 * x[b * threads + i] + x[b * threads + threads - 1 - i]);
        CHECK(difference(to.read(), expected) == "");
    }
    const auto x = checks::numbers<float>(1024, 2);
    const array<float> on(x);
    for (const unsigned rows : {1u, 8u, 32u}) {
        array<float> to(1024);
        const float* from = on.data();
        mpt::launch<tile_kernel>({1, dim3(32, rows), 0, stream()}, to.data(), from);
        const auto found = to.read();
        for (std::size_t r = 0; r < 32; ++r)
            for (std::size_t c = 0; c < 32; ++c) CHECK(found[r * 32 + c] == x[c * 32 + r]);
    }
}

TEST_CASE("barriers that count") {
    for (const unsigned threads : {1u, 31u, 32u, 257u, 1024u}) {
        array<int> to(threads);
        mpt::launch<count_kernel>({1, threads, 0, stream()}, to.data());
        const int expected = int((threads + 2) / 3) * 16 + (threads <= 1000) +
                             2 * (threads <= 5) + 4 * (threads > 7) + 8 * (threads > 1001);
        for (const int found : to.read()) CHECK(found == expected);
    }
}

TEST_CASE_TEMPLATE("shuffles, of segments of every width", T, int, unsigned, float, double,
                   long long) {
    for (const int width : {32, 16, 8, 2}) {
        array<T> to(64 * 5);
        mpt::launch<shuffle_kernel<T>>({1, 64, 0, stream()}, to.data(), width);
        const auto found = to.read();
        for (int i = 0; i < 64; ++i) {
            const int lane = i % 32, warp = i - lane, base = lane / width * width;
            const int in = lane - base, x = lane ^ 5;
            const int from[] = {base + 3 % width, in >= 2 ? lane - 2 : lane,
                                in + 3 < width ? lane + 3 : lane,
                                x < base + width ? x : lane, base + i * 7 % width};
            for (int k = 0; k < 5; ++k)
                CHECK(found[std::size_t(5 * i + k)] == T(100 + warp + from[k]));
        }
    }
}

TEST_CASE("votes and reductions of a warp") {
    array<unsigned> to(64 * 8);
    mpt::launch<votes_kernel>({1, 64, 0, stream()}, to.data());
    const auto found = to.read();
    for (unsigned i = 0; i < 64; ++i) {
        unsigned fifth = 0, alike = 0, sum = 0, xors = 0, most = 0, ands = ~0u;
        const unsigned first = i / 32 * 32;
        for (unsigned j = first; j < first + 32; ++j) {
            fifth |= unsigned(j % 5 == 1) << j % 32;
            alike |= unsigned(j % 3 == i % 3) << j % 32;
            sum += j - 20;
            xors ^= j * j;
            most = std::max(most, j ^ 21);
            ands &= j | 4;
        }
        const unsigned expected[] = {fifth, 5, alike, sum, first - 20, most, ands + 127, xors};
        for (unsigned k = 0; k < 8; ++k) CHECK(found[8 * i + k] == expected[k]);
    }
}

TEST_CASE("parts of a warp that go different ways, and a warp that is not full") {
    array<unsigned> to(64);
    mpt::launch<parted_kernel>({1, 64, 0, stream()}, to.data());
    auto found = to.read();
    for (unsigned i = 0; i < 64; ++i) {
        const unsigned lane = i % 32;
        unsigned threes = 0;
        for (unsigned l = 16; l < 32; ++l) threes |= unsigned(l % 3 == 0) << l;
        CHECK(found[i] == (lane < 16 ? 0xAAAA + (lane ^ 1) : threes + std::min(lane + 1, 31u)));
    }
    array<unsigned> some(48);
    mpt::launch<partial_kernel>({1, 48, 0, stream()}, some.data());
    found = some.read();
    for (unsigned i = 0; i < 48; ++i) {
        const unsigned here = i < 32 ? ~0u : 0xFFFF, sum = i < 32 ? 496 : 632;
        CHECK(found[i] == (here ^ sum << 8 ^ (i % 16 < 15 ? i + 1 : i) << 20));
    }
    array<unsigned> active(64);
    mpt::launch<active_kernel>({1, 64, 0, stream()}, active.data());
    found = active.read();
    for (unsigned i = 0; i < 64; ++i) CHECK(found[i] == (i % 32 < 20 ? 0x000FFFFFu : ~0u));
}

TEST_CASE("atomics of many blocks") {
    const unsigned blocks = 37, threads = 96, n = blocks * threads;
    array<int> i(std::vector<int>{0, 0, -1, 5, 0x7FFFFFFF, -0x7FFFFFFF});
    array<unsigned> u(std::vector<unsigned>{0, 0, ~0u, 0, 0, 0, 0, 12345, 0});
    array<float> f(std::vector<float>{1});
    array<double> d(std::vector<double>{1});
    array<unsigned long long> l(std::vector<unsigned long long>{0, 0});
    mpt::launch<atomics_kernel>({blocks, threads, 0, stream()}, i.data(), u.data(), f.data(),
                                d.data(), l.data());
    const int last = int(n) - 1;
    CHECK(i.read() == std::vector<int>{last * (last + 1) / 2, -int(n), 776, -last,
                                       int(n + 0x7FFFFFFFu), int(0x80000001u - n)});
    unsigned odd = 0;
    for (unsigned k = 0; k < n; ++k) odd ^= k;
    const auto words = u.read();
    CHECK(words[0] == n);
    CHECK(words[1] == ~0u);
    CHECK(words[2] == 0xFFFF0000);
    CHECK(words[3] == odd);
    CHECK(words[4] == n % 100);
    CHECK(words[5] == words[6]);
    CHECK(words[7] < n);
    CHECK(words[8] == 1);
    CHECK(f.read()[0] == 1 + 0.5f * float(n)); // exact: every partial sum is
    CHECK(d.read()[0] == 1 + 0.25 * double(n));
    CHECK(l.read() == std::vector<unsigned long long>{static_cast<unsigned long long>(n) << 33,
                                                      static_cast<unsigned long long>(last) << 20});
}

TEST_CASE("the last block sees what the others wrote before their fence") {
    const unsigned blocks = 129;
    array<unsigned> parts(blocks), done(std::vector<unsigned>{0}), sum(1);
    mpt::launch<last_block_kernel>({blocks, 32, 0, stream()}, parts.data(), done.data(),
                                   sum.data());
    CHECK(sum.read()[0] == blocks * (blocks + 1) / 2);
}

TEST_CASE("vectors of 8 and 16 bytes, and other types in them") {
    const auto x = checks::numbers<float>(4 * 40, 3);
    std::vector<unsigned short> h(8 * 40);
    std::iota(h.begin(), h.end(), static_cast<unsigned short>(11));
    const array<float> on(x);
    array<float> to(4 * 40);
    array<unsigned short> halves(h);
    const float* from = on.data();
    mpt::launch<vectors_kernel>({1, 40, 0, stream()}, to.data(), from, halves.data());
    const auto found = to.read();
    const auto moved = halves.read();
    for (std::size_t i = 0; i < 40; ++i) {
        CHECK(found[4 * i] == x[4 * i + 3]);
        CHECK(found[4 * i + 1] == x[4 * i + 2]);
        CHECK(found[4 * i + 2] == x[2 * i + 1]);
        CHECK(found[4 * i + 3] == x[2 * i]);
        const auto* was = &h[8 * i];
        const int third = was[2] ^ was[0];
        const int expected[] = {was[0], third + 1, third,  was[3] ^ was[1],
                                was[6], was[7],    was[4], was[5]};
        for (std::size_t k = 0; k < 8; ++k) CHECK(int(moved[8 * i + k]) == expected[k]);
    }
}
