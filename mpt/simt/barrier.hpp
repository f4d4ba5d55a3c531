// SPDX-License-Identifier: MIT
/// @file barrier.hpp
/// __syncthreads and the forms of it that count.                           tier 2, needs:
/// simt/block.hpp simt/hooks.hpp
///
/// Idea     Nobody passes before all threads of the block are there; what was written before is
///          then seen by all. All threads must come, and to the same line: CUDA leaves undefined
///          what happens otherwise, the emulator refuses it.
/// See      block.hpp (barrier), tests/simt/sync_test.cpp
#pragma once
#include "mpt/simt/block.hpp" // block: barrier; words
#include "mpt/simt/hooks.hpp" // place

namespace mpt::simt {

MPT_SIMT_QUIET inline void __syncthreads(place at = place::here()) {
    block::here().barrier(0, words::syncthreads, at);
}
/// How many threads say yes.
MPT_SIMT_QUIET inline int __syncthreads_count(int yes, place at = place::here()) {
    return int(block::here().barrier(yes != 0, words::count, at));
}
MPT_SIMT_QUIET inline int __syncthreads_and(int yes, place at = place::here()) {
    return block::here().barrier(yes == 0, words::all, at) == 0;
}
MPT_SIMT_QUIET inline int __syncthreads_or(int yes, place at = place::here()) {
    return block::here().barrier(yes != 0, words::some, at) != 0;
}

} // namespace mpt::simt
