// SPDX-License-Identifier: MIT
// The occupancy of hand-checked blocks, and, with CUDA's headers, of random ones against NVIDIA's.
#include "mpt/simt/occupancy.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>

#ifdef MPT_HAS_CUDA
#include <cuda_occupancy.h>
#endif

using namespace mpt;
using simt::block_needs, simt::multiprocessor, simt::occupancy, simt::multiprocessor_of;

namespace {

constexpr block_needs blocks[] = {
    {256, 32, 0},     {256, 63, 0},  {256, 64, 0}, {128, 40, 8192}, {256, 37, 16384},  {192, 21, 0},
    {1024, 33, 0},    {32, 16, 0},   {96, 48, 0},  {256, 32, 49152}, {256, 32, 98304},
};

// "4 wr": 4 blocks, and it is warps and registers that do not allow a fifth (s: shared, b: blocks)
struct row {
    int capability;
    std::array<const char*, std::size(blocks)> wanted;
};
constexpr row rows[] = {
    {20, {"4 r", "2 r", "0 r", "6 rs", "3 rs", "7 r", "0 r", "8 b", "6 r", "1 s", "0 s"}},
    {30, {"8 wr", "4 r", "0 r", "6 s", "3 s", "10 w", "1 r", "16 b", "13 r", "1 s", "0 s"}},
    {35, {"8 wr", "4 r", "4 r", "6 s", "3 s", "10 w", "1 r", "16 b", "13 r", "1 s", "0 s"}},
    {50, {"8 wr", "4 r", "4 r", "8 s", "4 s", "10 w", "1 r", "32 b", "13 r", "1 s", "0 s"}},
    {52, {"8 wr", "4 r", "4 r", "12 rs", "6 rs", "10 w", "1 r", "32 b", "13 r", "2 s", "0 s"}},
    {60, {"8 wr", "4 r", "4 r", "8 s", "4 s", "10 w", "1 r", "32 b", "14 r", "1 s", "0 s"}},
    {61, {"8 wr", "4 r", "4 r", "12 rs", "6 rs", "10 w", "1 r", "32 b", "13 r", "2 s", "0 s"}},
    {70, {"8 wr", "4 r", "4 r", "12 rs", "6 rs", "10 w", "1 r", "32 b", "13 r", "2 s", "1 s"}},
    {75, {"4 w", "4 wr", "4 wr", "8 ws", "4 ws", "5 w", "1 wr", "16 b", "10 w", "1 s", "0 s"}},
    {80, {"8 wr", "4 r", "4 r", "12 r", "6 r", "10 w", "1 r", "32 b", "13 r", "3 s", "1 s"}},
    {86, {"6 w", "4 r", "4 r", "11 s", "5 s", "8 w", "1 wr", "16 b", "13 r", "2 s", "1 s"}},
    {89, {"6 w", "4 r", "4 r", "11 s", "5 s", "8 w", "1 wr", "24 b", "13 r", "2 s", "1 s"}},
    {90, {"8 wr", "4 r", "4 r", "12 r", "6 r", "10 w", "1 r", "32 b", "13 r", "4 s", "2 s"}},
    {100, {"8 wr", "4 r", "4 r", "12 r", "6 r", "10 w", "1 r", "32 b", "13 r", "4 s", "2 s"}},
    {120, {"6 w", "4 r", "4 r", "11 s", "5 s", "8 w", "1 wr", "24 b", "13 r", "2 s", "1 s"}},
};

std::string short_form(const occupancy& o) {
    std::string s = std::to_string(o.blocks) + " ";
    if (o.by_warps == o.blocks) s += "w";
    if (o.by_registers == o.blocks) s += "r";
    if (o.by_shared == o.blocks) s += "s";
    if (o.by_blocks == o.blocks) s += "b";
    return s;
}

int wrong_check_values(const multiprocessor& m, const row& r) {
    int wrong = 0;
    for (std::size_t i = 0; i < std::size(blocks); ++i)
        wrong += short_form(occupancy_of(m, blocks[i])) != r.wanted[i];
    return wrong;
}

} // namespace

TEST_CASE("check values of every generation, with what limits them") {
    for (const row& r : rows)
        for (std::size_t i = 0; i < std::size(blocks); ++i) {
            CAPTURE(r.capability);
            CAPTURE(i);
            const occupancy o = occupancy_of(multiprocessor_of(r.capability), blocks[i]);
            CHECK(short_form(o) == r.wanted[i]);
            CHECK(o.warps == o.blocks * ((blocks[i].threads + 31) / 32));
        }
}

TEST_CASE("sabotage: a wrong number in a row is seen") {
    multiprocessor pascal = multiprocessor_of(60), hopper = multiprocessor_of(90);
    pascal.parts = 4; // 14 blocks of 96 threads become 13
    CHECK(wrong_check_values(pascal, rows[5]) == 1);
    hopper.reserved = 0;
    CHECK(wrong_check_values(hopper, rows[12]) == 0); // these blocks do not meet it:
    CHECK(occupancy_of(hopper, {64, 16, 228 * 1024 / 19}).blocks == 19);
    CHECK(occupancy_of(multiprocessor_of(90), {64, 16, 228 * 1024 / 19}).blocks == 17);
    hopper.shared_a_block = 64 * 1024;
    CHECK(wrong_check_values(hopper, rows[12]) == 1);
}

TEST_CASE("the numbers a reader sees") {
    const occupancy o = occupancy_of(multiprocessor_of(80), {256, 32, 0});
    CHECK(o.part() == 1);
    CHECK(o.limits() == "warps, registers");
    CHECK(occupancy_of(multiprocessor_of(20), {1024, 20, 0}).limits() == "warps, registers");
    CHECK(occupancy_of(multiprocessor_of(120), {32, 0, 0}).limits() == "blocks");
    CHECK(occupancy_of(multiprocessor_of(90), {256, 64, 100 * 1024}).limits() == "shared memory");
}

TEST_CASE("what no multiprocessor takes") {
    const multiprocessor& m = multiprocessor_of(90);
    CHECK(occupancy_of(m, {1025, 16, 0}).limits() == "warps, registers");
    CHECK(occupancy_of(m, {INT32_MAX, 16, 0}).blocks == 0);
    CHECK(occupancy_of(m, {32, 256, 0}).limits() == "registers");
    CHECK(occupancy_of(m, {32, INT32_MAX, 0}).blocks == 0);
    CHECK(occupancy_of(m, {32, 16, 227 * 1024}).blocks == 1);
    CHECK(occupancy_of(m, {32, 16, 227 * 1024 + 1}).limits() == "shared memory");
    CHECK(occupancy_of(m, {32, 16, SIZE_MAX}).blocks == 0);
}

TEST_CASE("bad input is named") {
    CHECK_THROWS_WITH_AS(
        multiprocessor_of(42),
        "occupancy: compute capability 42 is not in the table; write 8.6 as 86, known are 20 21 30 "
        "35 37 50 52 53 60 61 62 70 75 80 86 87 89 90 100 103 110 120 121",
        error);
    CHECK_THROWS_WITH_AS(occupancy_of(multiprocessor_of(80), {0, 16, 0}),
                         "occupancy: a block of 0 threads with 16 registers each; give at least 1 "
                         "thread and 0 registers",
                         error);
    CHECK_THROWS_AS(occupancy_of(multiprocessor_of(80), {32, -1, 0}), error);
}

#ifdef MPT_HAS_CUDA
namespace {

constexpr int unknown = -1;

// What NVIDIA's calculator says, in our order; `unknown` blocks for a capability it does not know.
occupancy theirs(const multiprocessor& m, const block_needs& b) {
    cudaOccDeviceProp device;
    device.computeMajor = m.capability / 10;
    device.computeMinor = m.capability % 10;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = m.warps * 32;
    device.regsPerBlock = m.registers_a_block;
    device.regsPerMultiprocessor = m.registers;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = size_t(m.shared);
    device.numSms = 1;
    device.sharedMemPerBlockOptin = size_t(m.shared_a_block);
    device.reservedSharedMemPerBlock = size_t(m.reserved);
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = b.registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = 1 << 20; // asked for in full
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult r;
    occupancy o;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &device, &kernel, &state, b.threads,
                                                b.shared) != CUDA_OCC_SUCCESS) {
        o.blocks = unknown;
        return o;
    }
    o.blocks = r.activeBlocksPerMultiprocessor;
    o.by_warps = r.blockLimitWarps;
    o.by_registers = r.blockLimitRegs;
    o.by_shared = r.blockLimitSharedMem;
    o.by_blocks = r.blockLimitBlocks;
    return o;
}

struct comparison {
    int compared = 0, different = 0;
    block_needs first; // of those that differ
};

// `n` random blocks, half of them with the sizes that programs use.
comparison compare(const multiprocessor& ours, const multiprocessor& given, int n) {
    comparison c;
    std::mt19937 random(uint32_t(ours.capability));
    const auto below = [&](int limit) { return int(random() % uint32_t(limit)); };
    for (int i = 0; i < n; ++i) {
        block_needs b;
        b.threads = i % 2 ? 1 + below(1100) : 32 * (1 + below(32));
        // Their limit a thread is 255 for all of 3.x and 256 from 7.0 on; the guide says 63 for
        // 3.0 and 255 for the others.
        b.registers = below(ours.registers_a_thread + 1);
        b.shared = size_t(i % 3 ? below(ours.shared_a_block + 2000) : 1024 * below(64));
        const occupancy a = occupancy_of(ours, b), t = theirs(given, b);
        if (t.blocks == unknown) return c;
        ++c.compared;
        const bool same = a.blocks == t.blocks && a.by_warps == t.by_warps &&
                          a.by_shared == t.by_shared && a.by_blocks == t.by_blocks &&
                          (b.threads > 1024 || a.by_registers == t.by_registers);
        if (!same && c.different++ == 0) c.first = b;
    }
    return c;
}

} // namespace

TEST_CASE("random blocks: all four limits are those of cuda_occupancy.h") {
    int compared = 0, rows_compared = 0;
    for (const multiprocessor& m : simt::multiprocessors) {
        if (m.capability < 30) continue; // CUDA 9 and later know no Fermi
        const comparison c = compare(m, m, 20000);
        CAPTURE(m.capability);
        CAPTURE(c.first.threads);
        CAPTURE(c.first.registers);
        CAPTURE(c.first.shared);
        CHECK(c.different == 0);
        compared += c.compared;
        rows_compared += c.compared > 0;
    }
    MESSAGE(compared << " blocks on " << rows_compared << " compute capabilities");
    CHECK(compared >= 100000);
}

TEST_CASE("sabotage: random blocks find each wrong number") {
    using field = int multiprocessor::*;
    for (field f : {&multiprocessor::warps, &multiprocessor::blocks, &multiprocessor::registers,
                    &multiprocessor::registers_a_block, &multiprocessor::shared,
                    &multiprocessor::shared_a_block, &multiprocessor::shared_unit,
                    &multiprocessor::register_unit, &multiprocessor::parts}) {
        multiprocessor wrong = multiprocessor_of(86);
        wrong.*f /= 2;
        CHECK(compare(wrong, multiprocessor_of(86), 20000).different > 0);
    }
    multiprocessor wrong = multiprocessor_of(86);
    wrong.reserved = 0;
    CHECK(compare(wrong, multiprocessor_of(86), 20000).different > 0);
}
#endif
