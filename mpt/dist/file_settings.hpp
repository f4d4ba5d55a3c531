// SPDX-License-Identifier: MIT
/// @file file_settings.hpp
/// How a rank keeps states or weights in files.                            tier 6, needs:
/// base/disk.hpp base/memory.hpp base/trace.hpp dist/state_file.hpp
///
/// Idea     The folder, whose files they are, how many buffers there are, and a buffer: a record in
///          host memory at an address that the disk takes (direct_file.hpp).
/// Formula  host bytes of a buffer = record + 4096
/// See      file_states.hpp, file_weights.hpp (users)
#pragma once
#include "mpt/base/disk.hpp"       // disk
#include "mpt/base/memory.hpp"     // memory, buffer
#include "mpt/base/trace.hpp"      // trace
#include "mpt/dist/state_file.hpp" // direct_file

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>

namespace mpt {

struct file_settings {
    std::string folder;            // that exists; on a fast disk
    int rank = 0;                  // part of the files' names
    std::size_t part = 1 << 18;    // elements: a record of states is 3 MiB with Adam
    int buffers = 3;               // one is read, one updated, one written
    mpt::trace* seen = nullptr;    // a bar for each read and write
    const disk& calls = real_disk; // of the files
};

/// A number that no other run has.
inline std::uint64_t new_run() {
    std::random_device r;
    return std::uint64_t(r()) << 32 | r();
}

/// Host memory of a record of so many bytes.
struct record_buffer {
    record_buffer(memory& mem, std::size_t bytes, const char* what)
        : room(mem, kind::temp, bytes + direct_file::alignment, what, place::host) {
        void* at = room.span().data();
        std::size_t space = room.size();
        std::align(direct_file::alignment, bytes, at, space);
        record = {static_cast<std::byte*>(at), bytes};
    }
    /// The numbers of a record, behind its seal.
    template <class E>
    E* payload() const {
        return reinterpret_cast<E*>(record.data() + state_file::seal_bytes);
    }

    buffer<std::byte> room;
    std::span<std::byte> record; // of `room`
};

} // namespace mpt
