// SPDX-License-Identifier: MIT
/// @file settings.hpp
/// What can be set of the emulator, and the limits of the device that it is. tier 2, needs:
/// base/error.hpp
///
/// Idea     One set of numbers a process, changed between launches. A seed other than 0 shuffles
///          the order in which blocks, warps and lanes run: a result that depends on it is a race.
///          The numbers are those of a device of compute capability 9.0.
/// Breaks   a change while another thread launches
/// See      launch.hpp (the limits), block.hpp (the orders), tests/simt/order_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace mpt::simt {

struct emulator_settings {
    int threads = 1;           // system threads over which blocks are spread; MPT_SIMT_THREADS
    unsigned order_seed = 0;   // 0: ascending; MPT_SIMT_SEED
    double watch_seconds = 60; // that one block may run; 0: for ever
    bool checks = true;        // of pointer arguments here, of accesses in checked builds

    unsigned max_threads = 1024; // of a block
    unsigned max_block_z = 64;
    unsigned max_grid_x = 2147483647, max_grid_yz = 65535;
    std::size_t max_shared_bytes = 227 * 1024; // dynamic, a block; 48 KB without being asked for
    std::size_t stack_bytes = 128 * 1024;      // of one thread; more under AddressSanitizer
};

/// The value of an environment variable, or `otherwise`. Throws what is no number in [low, high].
inline unsigned setting_from_environment(const char* name, unsigned otherwise, unsigned low,
                                         unsigned high) {
    const char* text = std::getenv(name);
    if (!text) return otherwise;
    unsigned value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, bad] = std::from_chars(text, end, value);
    check(bad == std::errc() && stop == end && value >= low && value <= high, name, "='", text,
          "': wanted is a number from ", low, " to ", high);
    return value;
}

inline emulator_settings& settings() {
    static emulator_settings s = [] {
        emulator_settings from;
        const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
        from.threads = int(setting_from_environment("MPT_SIMT_THREADS", cores, 1, 1024));
        from.order_seed = setting_from_environment("MPT_SIMT_SEED", 0, 0, 0xFFFFFFFF);
        return from;
    }();
    return s;
}

} // namespace mpt::simt
