// SPDX-License-Identifier: MIT
/// @file hooks.hpp
/// Where the checks look into the emulator.                                tier 2, needs:
/// simt/cuda_words.hpp simt/vector_types.hpp
///
/// Idea     The emulator says what happens: a launch, a block, which thread runs, who has met whom.
///          A checked build (MPT_SIMT_CHECK) defines the functions of `watch`; in every other build
///          they are empty and cost nothing.
/// Breaks   a program with checked and unchecked files
/// See      block.hpp, launch.hpp, runtime.hpp (who calls them), probe.hpp (who listens)
#pragma once
#include "mpt/simt/cuda_words.hpp"   // MPT_SIMT_QUIET
#include "mpt/simt/vector_types.hpp" // dim3, uint3

#include <cstddef>
#include <exception>
#include <string_view>

namespace mpt::simt {

/// A line of the kernel's source. As the default of a last parameter, here() is the caller's.
struct place {
    const char* file = "";
    unsigned line = 0;
    static constexpr place here(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) {
        return {f, l};
    }
    bool operator==(const place& other) const {
        return line == other.line && (file == other.file || std::string_view(file) == other.file);
    }
};

/// What all blocks of a launch have in common.
struct launch_info {
    std::string_view kernel; // its name
    dim3 grid, block;
    std::size_t shared_bytes = 0;    // of dynamic shared memory
    const void* function = nullptr;  // where its code begins
    const void* arguments = nullptr; // of the kernel, in the host's memory
    std::size_t arguments_bytes = 0;
};

/// True while this system thread executes a kernel's code (not the emulator's). Loads and stores
/// count only then.
inline thread_local volatile bool in_kernel = false;

namespace watch {

#if defined(MPT_SIMT_CHECK)
inline constexpr bool checked = true;
void kernel_exists(const void* function); // one of those that the program can launch
void launch_begin(const launch_info&);
std::exception_ptr launch_end(const launch_info&, std::exception_ptr failed); // what to throw
void block_begin(const launch_info&, uint3 block, void* dynamic_shared);      // shared_bytes of it
void block_end(bool failed);
void thread_runs(unsigned thread); // from here on accesses are this one's (linear index)
void thread_ends(unsigned thread); // it has returned
void barrier(place);               // all threads of the block are there
void warp_barrier(unsigned warp, unsigned lanes); // the lanes of a __syncwarp are there
void fence();                                     // __threadfence of the thread that runs
void atomic(const volatile void*, std::size_t bytes, place);          // before it
void freed(const void*);                                              // an allocation
void host_wrote(const void* to, const void* from, std::size_t bytes); // from null: a fill
void poisoned(const void*, std::size_t bytes); // filled with what is not to be read
#else
inline constexpr bool checked = false;
inline void kernel_exists(const void*) {}
inline void launch_begin(const launch_info&) {}
inline std::exception_ptr launch_end(const launch_info&, std::exception_ptr e) { return e; }
inline void block_begin(const launch_info&, uint3, void*) {}
inline void block_end(bool) {}
inline void thread_runs(unsigned) {}
inline void thread_ends(unsigned) {}
inline void barrier(place) {}
inline void warp_barrier(unsigned, unsigned) {}
inline void fence() {}
inline void atomic(const volatile void*, std::size_t, place) {}
inline void freed(const void*) {}
inline void poisoned(const void*, std::size_t) {}
inline void host_wrote(const void*, const void*, std::size_t) {}
#endif

} // namespace watch
} // namespace mpt::simt
