// SPDX-License-Identifier: MIT
/// @file occupancy.hpp
/// How many blocks of a kernel live on a multiprocessor at once.           tier 2, needs:
/// base/error.hpp
///
/// Idea     A multiprocessor hides waiting by having other warps to run. It takes in blocks whole,
///          until one of four things runs out: warps, registers, shared memory, places for blocks.
/// Formula  blocks    = min(by_warps, by_registers, by_shared, by_blocks)
///          occupancy = blocks * warps of a block / warps that the multiprocessor can hold
///          Registers go to warps in units, and to each sub-partition from its own share
/// Breaks   aiming at 100 %: it hides waiting, it does no work. Register tiles are fast at 25 %
/// Source   CUDA Programming Guide 13, tables 30 to 32 (7.5 to 12.1), 11 (3.5 to 8.7); for 2.x and
///          3.0 cuda_occupancy.h of CUDA 7 and 13. Shared memory at the largest carve-out
/// See      tests/simt/occupancy_test.cpp (check values; cuda_occupancy.h on random blocks)
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <string>

namespace mpt::simt {

/// What one multiprocessor of a compute capability holds, and in what pieces it gives it away.
struct multiprocessor {
    int capability;           // 86 is compute capability 8.6
    int warps;                // that live at once; 32 threads each
    int blocks;               // that live at once
    int registers;            // of 32 bits
    int registers_a_block;    // that one block may have
    int registers_a_thread;   // that one thread may have
    int shared;               // bytes
    int shared_a_block;       // bytes that one block may ask for (above 48 KB it has to opt in)
    int reserved;             // bytes that CUDA keeps for itself in each block
    int shared_unit;          // bytes; a block's shared memory is rounded up to it
    int register_unit;        // a warp's registers are rounded up to it
    int parts;                // sub-partitions, each with its warps and its share of the registers

    static constexpr int block_threads = 1024, warp_threads = 32; // the same everywhere
    static constexpr int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

    /// Blocks of so many warps that the registers allow; INT_MAX for a kernel without registers.
    constexpr int blocks_by_registers(int a_thread, int a_block_warps) const {
        if (a_thread > registers_a_thread) return 0;
        // Fermi gives 128 at a time to 21, 22, 29, 30, 37, 38, 45 and 46 registers a thread
        const bool pairs = capability < 30 && a_thread > 20 && a_thread < 47 &&
                           (a_thread % 8 == 5 || a_thread % 8 == 6);
        const int a_warp = round_up(a_thread * warp_threads, pairs ? 128 : register_unit);
        // The check of a launch counts as if each part held equally many warps; 6.0 is checked with
        // the 4 parts of 6.1, so that what runs on one Pascal runs on all.
        const int checked_parts = capability == 60 ? 4 : parts;
        if (a_warp * round_up(a_block_warps, checked_parts) > registers_a_block) return 0;
        if (a_warp == 0) return INT_MAX;
        return registers / parts / a_warp * parts / a_block_warps; // no warp spans two parts
    }

    /// Blocks that the shared memory allows; INT_MAX for a kernel without.
    constexpr int blocks_by_shared(std::size_t bytes) const {
        if (bytes > std::size_t(shared_a_block)) return 0;
        const int a_block = round_up(int(bytes) + reserved, shared_unit);
        return a_block == 0 ? INT_MAX : shared / a_block;
    }
};

inline constexpr auto multiprocessors = [] {
    constexpr int K = 1024;
    return std::to_array<multiprocessor>({
        //              registers               shared memory            units
        //  warps       all     block  thread   all      block    kept   shared
        //       blocks                                                       registers, parts
        { 20,  48,  8,   32 * K, 32 * K,  63,   48 * K,  48 * K, 0 * K,  128,  64, 2}, // Fermi
        { 21,  48,  8,   32 * K, 32 * K,  63,   48 * K,  48 * K, 0 * K,  128,  64, 2},
        { 30,  64, 16,   64 * K, 64 * K,  63,   48 * K,  48 * K, 0 * K,  256, 256, 4}, // Kepler
        { 35,  64, 16,   64 * K, 64 * K, 255,   48 * K,  48 * K, 0 * K,  256, 256, 4},
        { 37,  64, 16,  128 * K, 64 * K, 255,  112 * K,  48 * K, 0 * K,  256, 256, 4},
        { 50,  64, 32,   64 * K, 64 * K, 255,   64 * K,  48 * K, 0 * K,  256, 256, 4}, // Maxwell
        { 52,  64, 32,   64 * K, 64 * K, 255,   96 * K,  48 * K, 0 * K,  256, 256, 4},
        { 53,  64, 32,   64 * K, 32 * K, 255,   64 * K,  48 * K, 0 * K,  256, 256, 4},
        { 60,  64, 32,   64 * K, 64 * K, 255,   64 * K,  48 * K, 0 * K,  256, 256, 2}, // Pascal
        { 61,  64, 32,   64 * K, 64 * K, 255,   96 * K,  48 * K, 0 * K,  256, 256, 4},
        { 62,  64, 32,   64 * K, 32 * K, 255,   64 * K,  48 * K, 0 * K,  256, 256, 4},
        { 70,  64, 32,   64 * K, 64 * K, 255,   96 * K,  96 * K, 0 * K,  256, 256, 4}, // Volta
        { 75,  32, 16,   64 * K, 64 * K, 255,   64 * K,  64 * K, 0 * K,  256, 256, 4}, // Turing
        { 80,  64, 32,   64 * K, 64 * K, 255,  164 * K, 163 * K, 1 * K,  128, 256, 4}, // Ampere
        { 86,  48, 16,   64 * K, 64 * K, 255,  100 * K,  99 * K, 1 * K,  128, 256, 4},
        { 87,  48, 16,   64 * K, 64 * K, 255,  164 * K, 163 * K, 1 * K,  128, 256, 4},
        { 89,  48, 24,   64 * K, 64 * K, 255,  100 * K,  99 * K, 1 * K,  128, 256, 4}, // Ada
        { 90,  64, 32,   64 * K, 64 * K, 255,  228 * K, 227 * K, 1 * K,  128, 256, 4}, // Hopper
        {100,  64, 32,   64 * K, 64 * K, 255,  228 * K, 227 * K, 1 * K,  128, 256, 4}, // Blackwell
        {103,  64, 32,   64 * K, 64 * K, 255,  228 * K, 227 * K, 1 * K,  128, 256, 4},
        {110,  48, 24,   64 * K, 64 * K, 255,  228 * K, 227 * K, 1 * K,  128, 256, 4},
        {120,  48, 24,   64 * K, 64 * K, 255,  100 * K,  99 * K, 1 * K,  128, 256, 4},
        {121,  48, 24,   64 * K, 64 * K, 255,  100 * K,  99 * K, 1 * K,  128, 256, 4},
    });
}();

/// The row of `capability` (80 is 8.0). Throws where there is none.
inline const multiprocessor& multiprocessor_of(int capability) {
    std::string known;
    for (const multiprocessor& m : multiprocessors) {
        if (m.capability == capability) return m;
        known += " " + std::to_string(m.capability);
    }
    check(false, "occupancy: compute capability ", capability, " is not in the table; write 8.6 as "
          "86, known are", known);
    return multiprocessors[0];
}

/// What a kernel asks for: ptxas -v and cudaFuncGetAttributes tell the last two.
struct block_needs {
    int threads = 0;             // of a block
    int registers = 0;           // a thread
    std::size_t shared = 0;      // bytes a block, static and dynamic together
};

struct occupancy {
    int blocks = 0;              // on one multiprocessor; 0: such a block cannot run at all
    int warps = 0, of_warps = 0; // that live at once, and that could
    int by_warps = 0, by_registers = 0, by_shared = 0, by_blocks = 0; // what each would allow

    double part() const { return double(warps) / of_warps; }

    /// What there is too little of: the smallest of the four, and all that are as small.
    std::string limits() const {
        std::string names;
        const auto name = [&](int limit, const char* word) {
            if (limit == blocks) names += (names.empty() ? "" : ", ") + std::string(word);
        };
        name(by_warps, "warps");
        name(by_registers, "registers");
        name(by_shared, "shared memory");
        name(by_blocks, "blocks");
        return names;
    }
};

/// Occupancy of blocks like `b` on a multiprocessor `m`. Throws for a block that is none.
inline occupancy occupancy_of(const multiprocessor& m, const block_needs& b) {
    check(b.threads > 0 && b.registers >= 0, "occupancy: a block of ", b.threads, " threads with ",
          b.registers, " registers each; give at least 1 thread and 0 registers");
    const int warps = (b.threads - 1) / m.warp_threads + 1;
    const bool too_many = b.threads > m.block_threads;
    occupancy o;
    o.by_warps = too_many ? 0 : m.warps / warps;
    o.by_registers = too_many ? 0 : m.blocks_by_registers(b.registers, warps);
    o.by_shared = m.blocks_by_shared(b.shared);
    o.by_blocks = m.blocks;
    o.blocks = std::min({o.by_warps, o.by_registers, o.by_shared, o.by_blocks});
    o.warps = o.blocks * warps;
    o.of_warps = m.warps;
    return o;
}

} // namespace mpt::simt
