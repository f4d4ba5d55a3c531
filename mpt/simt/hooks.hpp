// SPDX-License-Identifier: MIT
/// @file hooks.hpp
/// Where the checks look into the emulator.                                tier 2, needs:
/// simt/cuda_words.hpp simt/vector_types.hpp
///
/// Idea     The emulator says what happens: a launch, a block, which thread runs, who has met whom.
///          A checked build (MPT_SIMT_CHECK) defines the functions of `watch`; in every other build
///          they are empty and cost nothing.
/// Breaks   a program with checked and unchecked files
/// See      block.hpp and launch.hpp (who calls them)
#pragma once
#include "mpt/simt/cuda_words.hpp"   // MPT_SIMT_QUIET
#include "mpt/simt/vector_types.hpp" // dim3, uint3

#include <cstddef>
#include <string_view>

namespace mpt::simt {

/// A line of the kernel's source. As the default of a last parameter, here() is the caller's.
struct place {
    const char* file = "";
    unsigned line = 0;
    static constexpr place here(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) {
        return {f, l};
    }
};

/// What all blocks of a launch have in common.
struct launch_info {
    std::string_view kernel; // its name
    dim3 grid, block;
    std::size_t shared_bytes = 0; // of dynamic shared memory
};

/// True while this system thread executes a kernel's code (not the emulator's). Loads and stores
/// count only then.
inline thread_local volatile bool in_kernel = false;

namespace watch {

#if defined(MPT_SIMT_CHECK)
void launch_begin(const launch_info&);
void launch_end(const launch_info&, bool failed);
void block_begin(const launch_info&, uint3 block, void* dynamic_shared); // shared_bytes of it
void block_end(bool failed);
void thread_runs(unsigned thread);    // from here on accesses are this one's (linear index)
void thread_ends(unsigned thread);    // it has returned
void barrier(place);                  // all threads of the block are there
void warp_meets(unsigned warp, unsigned lanes, place); // the lanes of the mask are there
void atomic(const volatile void*, std::size_t bytes, place); // before it
#else
inline void launch_begin(const launch_info&) {}
inline void launch_end(const launch_info&, bool) {}
inline void block_begin(const launch_info&, uint3, void*) {}
inline void block_end(bool) {}
inline void thread_runs(unsigned) {}
inline void thread_ends(unsigned) {}
inline void barrier(place) {}
inline void warp_meets(unsigned, unsigned, place) {}
inline void atomic(const volatile void*, std::size_t, place) {}
#endif

} // namespace watch
} // namespace mpt::simt
