// SPDX-License-Identifier: MIT
// Occupancy: chapter 13.
//
// A multiprocessor keeps several blocks at once, as many as its warps, registers and shared memory
// allow, and never more than 32. A warp's registers are 32 times those of a thread, rounded up to
// 256. They lie in four parts of 16384 registers, and no warp spans two: so count the warps that
// fit into one part, times four, then the blocks of these. Try it for blocks of `threads` threads.
#include "exercise.hpp"

#include <algorithm>

int warps_of(int threads) {
    //< warps: one line
    return (threads + 31) / 32;
    //> throw exercise::todo("warps");
}

int by_warps(const multiprocessor& m, int threads) {
    //< by_warps: one line
    return m.warps / warps_of(threads);
    //> throw exercise::todo("by_warps");
}

int by_registers(const multiprocessor& m, int threads, int registers_a_thread) {
    //< by_registers: about 3 lines
    const int a_warp = (registers_a_thread * 32 + 255) / 256 * 256;
    return m.registers / 4 / a_warp * 4 / warps_of(threads);
    //> throw exercise::todo("by_registers");
}

int by_shared(const multiprocessor& m, int bytes) {
    //< by_shared: one line
    return m.shared / ((bytes + 1024 + 127) / 128 * 128);
    //> throw exercise::todo("by_shared");
}

double occupancy(const multiprocessor& m, int threads, int registers_a_thread, int bytes) {
    //< occupancy: about 3 lines
    const int blocks =
        std::min({m.blocks, by_warps(m, threads), by_registers(m, threads, registers_a_thread),
                  by_shared(m, bytes)});
    return double(blocks * warps_of(threads)) / m.warps;
    //> throw exercise::todo("occupancy");
}
