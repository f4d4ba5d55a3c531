// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <algorithm>

using namespace grade;

namespace {

const multiprocessor m;

// Told apart from formulas: blocks are added one at a time until one does not fit.
int fits(int threads, int registers, int bytes) {
    const int warps = threads / 32 + (threads % 32 != 0);
    int a_warp = 0;
    while (a_warp < 32 * registers) a_warp += 256;
    int a_block = 0;
    while (a_block < bytes + 1024) a_block += 128;
    int slots = 0; // warps whose registers fit
    for (int part = 0; part < 4; ++part)
        for (int left = m.registers / 4; left >= a_warp; left -= a_warp) ++slots;
    int blocks = 0;
    while (blocks < m.blocks && (blocks + 1) * warps <= m.warps && (blocks + 1) * warps <= slots &&
           (blocks + 1) * a_block <= m.shared)
        ++blocks;
    return blocks;
}

} // namespace

PART("warps of a block", 1) {
    for (const int threads : {1, 31, 32, 33, 256, 1000, int(exercise::parameter("threads"))})
        equals(mpt::join("warps of ", threads, " threads"), warps_of(threads),
               threads / 32 + (threads % 32 != 0), "lanes that nobody uses are there all the same");
}
PART("each limit", 4) {
    for (const int threads : {32, 96, 256, 1024, int(exercise::parameter("threads"))}) {
        const int warps = threads / 32;
        equals(mpt::join("blocks of ", threads, " threads by warps"), by_warps(m, threads),
               64 / warps, "64 warps");
        for (const int registers : {16, 33, 40, 64, 96, 255}) {
            int a_warp = 0;
            while (a_warp < 32 * registers) a_warp += 256;
            equals(
                mpt::join("blocks of ", threads, " threads by ", registers, " registers a thread"),
                by_registers(m, threads, registers), 16384 / a_warp * 4 / warps,
                "whole warps in each of four parts, then whole blocks of these");
        }
    }
    for (const int bytes : {0, 1, 1000, 16384, 48 * 1024, 100 * 1024}) {
        int a_block = 0;
        while (a_block < bytes + 1024) a_block += 128;
        equals(mpt::join("blocks by ", bytes, " bytes of shared memory"), by_shared(m, bytes),
               m.shared / a_block, "a kilobyte of each block is CUDA's own");
    }
}
PART("all limits together", 3) {
    for (int round = 0; round < 500; ++round) {
        const int threads = 32 * any().between(1, 32), registers = any().between(1, 64);
        const int bytes = any().between(0, 3) ? 0 : any().between(0, 48 * 1024);
        near<double>(mpt::join("occupancy of ", threads, " threads, ", registers, " registers, ",
                               bytes, " bytes"),
                     occupancy(m, threads, registers, bytes),
                     double(fits(threads, registers, bytes) * threads / 32) / 64, 4,
                     "the tightest limit counts");
    }
}
