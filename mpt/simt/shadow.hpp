// SPDX-License-Identifier: MIT
/// @file shadow.hpp
/// What the checks remember of every byte that a kernel can touch.         tier 2, needs:
/// base/error.hpp simt/cuda_words.hpp
///
/// Idea     Beside a range of memory lie, for each byte, a flag "was written" and the numbers of
///          the last accesses that a later one may race with. A byte and not a word, so that
///          two halves that share a word are not confused. Numbers only grow: what is older than
///          the launch (or, in shared memory, than the block) is forgotten without being cleared.
/// Costs    17 bytes a byte, taken from the system only where touched
/// See      racecheck.hpp, memcheck.hpp, checks.hpp
#pragma once
#include "mpt/base/error.hpp"      // check
#include "mpt/simt/cuda_words.hpp" // MPT_SIMT_QUIET

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>

namespace mpt::simt {

/// Numbers of accesses (racecheck.hpp); 0: none.
struct shadow_cell {
    std::uint32_t writer = 0; // the last write
    std::uint32_t first = 0;  // an access of this block, not ordered before ...
    std::uint32_t second = 0; // ... this one, of another thread
    std::uint32_t far = 0;    // one of an earlier block
};
static_assert(sizeof(shadow_cell) == 16, "17 bytes a byte: these, and whether it was written");

class shadow {
public:
    shadow(std::uintptr_t begin, std::size_t bytes) : begin_(begin), bytes_(bytes) {
        room_ = mmap(nullptr, room(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        check(room_ != MAP_FAILED, "simt: the checks want ", room(), " bytes for ", bytes,
              " of the device's and the system refuses; allocate less or build without "
              "MPT_SIMT_CHECK");
    }
    ~shadow() { munmap(room_, room()); }
    shadow(const shadow&) = delete;
    shadow& operator=(const shadow&) = delete;

    MPT_SIMT_QUIET std::uintptr_t begin() const { return begin_; }
    MPT_SIMT_QUIET std::uintptr_t end() const { return begin_ + bytes_; }
    MPT_SIMT_QUIET std::size_t bytes() const { return bytes_; }

    MPT_SIMT_QUIET shadow_cell* cells(std::uintptr_t at) {
        return static_cast<shadow_cell*>(room_) + (at - begin_);
    }
    /// One flag a byte.
    MPT_SIMT_QUIET unsigned char* written(std::uintptr_t at) {
        return static_cast<unsigned char*>(room_) + bytes_ * sizeof(shadow_cell) + (at - begin_);
    }
    void set_written(std::uintptr_t at, std::size_t bytes, bool yes) {
        std::memset(written(at), yes, bytes);
    }

private:
    std::size_t room() const { return bytes_ * (sizeof(shadow_cell) + 1) + 1; }

    std::uintptr_t begin_;
    std::size_t bytes_;
    void* room_;
};

} // namespace mpt::simt
