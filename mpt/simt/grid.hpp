// SPDX-License-Identifier: MIT
/// @file grid.hpp
/// All blocks of a launch, over several system threads.                    tier 2, needs:
/// base/error.hpp base/thread_pool.hpp simt/block.hpp simt/hooks.hpp simt/settings.hpp
/// simt/vector_types.hpp simt/watchdog.hpp
///
/// Idea     Blocks know nothing of each other, so any number of system threads may run them, in any
///          order, with the same result. A seed shuffles the order: what depends on it is a race.
/// Breaks   blocks that wait for each other: on one system thread the first would wait for ever
/// Source   CUDA C++ Programming Guide, Technical Specifications per Compute Capability (limits)
/// See      block.hpp, launch.hpp, settings.hpp, tests/simt/launch_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // check
#include "mpt/base/thread_pool.hpp"  // thread_pool
#include "mpt/simt/block.hpp"        // block, kernel_call
#include "mpt/simt/hooks.hpp"        // launch_info, watch
#include "mpt/simt/settings.hpp"     // settings
#include "mpt/simt/vector_types.hpp" // uint3
#include "mpt/simt/watchdog.hpp"     // watchdog

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <numeric>

namespace mpt::simt {

/// Throws what the device would refuse, with the kernel's name and the limit.
inline void check_limits(const launch_info& l) {
    const emulator_settings& s = settings();
    const auto within = [&](unsigned long long value, unsigned long long least,
                            unsigned long long most, const char* what) {
        check(value >= least && value <= most, "launch of ", l.kernel, ": ", what, " is ", value,
              "; the device takes ", least, " to ", most);
    };
    within(l.grid.x, 1, s.max_grid_x, "grid.x");
    within(l.grid.y, 1, s.max_grid_yz, "grid.y");
    within(l.grid.z, 1, s.max_grid_yz, "grid.z");
    within(l.block.x, 1, s.max_threads, "block.x");
    within(l.block.y, 1, s.max_threads, "block.y");
    within(l.block.z, 1, s.max_block_z, "block.z");
    within(1ull * l.block.x * l.block.y * l.block.z, 1, s.max_threads, "threads of a block");
    within(l.shared_bytes, 0, s.max_shared_bytes, "dynamic shared memory in bytes");
}

/// The threads that blocks are spread over.
inline std::shared_ptr<thread_pool> launch_pool(int threads) {
    static std::mutex lock;
    static std::shared_ptr<thread_pool> pool;
    const std::lock_guard hold(lock);
    if (!pool || pool->size() != threads) pool = std::make_shared<thread_pool>(threads);
    return pool;
}

/// Block number i of n, in the order of a seed: (a i + c) mod n, a and n without common divisor.
inline unsigned long long block_in_order(unsigned long long i, unsigned long long n,
                                         unsigned seed) {
    if (seed == 0 || n > 0xFFFFFFFF) return i; // a i + c is to fit
    unsigned long long a = (seed * 2654435761ull) % n | 1;
    while (std::gcd(a, n) != 1) a += 2;
    return (a % n * i + seed % n) % n;
}

inline void run_grid(const launch_info& l, kernel_call call) {
    const unsigned long long n = 1ull * l.grid.x * l.grid.y * l.grid.z;
    const unsigned seed = settings().order_seed;
    watchdog::here().watch(settings().watch_seconds, block::interrupted);
    const auto run = [&](std::size_t i) {
        const unsigned long long at = block_in_order(i, n, seed);
        const uint3 index{unsigned(at % l.grid.x), unsigned(at / l.grid.x % l.grid.y),
                          unsigned(at / l.grid.x / l.grid.y)};
        block::here().run(l, call, index, at);
    };
    const int threads = settings().threads;
    if (n == 1 || threads == 1 || watch::checked) { // the checks take one block after another
        for (unsigned long long i = 0; i < n; ++i) run(i);
        return;
    }
    const std::size_t grain = std::max<std::size_t>(1, n / (std::size_t(threads) * 16));
    launch_pool(threads)->for_ranges(n, grain, [&](std::size_t begin, std::size_t end, int) {
        for (std::size_t i = begin; i < end; ++i) run(i);
    });
}

} // namespace mpt::simt
