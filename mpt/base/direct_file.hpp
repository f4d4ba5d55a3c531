// SPDX-License-Identifier: MIT
/// @file direct_file.hpp
/// A file that a run writes and reads back, in place.                      tier 0, needs:
/// base/disk.hpp base/error.hpp
///
/// Idea     What is read once a step and then overwritten gains nothing from the system's cache,
///          and would push out what does. O_DIRECT moves blocks between the disk and the caller's
///          memory; where a file system does not take it (tmpfs), the same calls go by the cache.
/// Formula  positions, sizes and addresses are multiples of `alignment`: what is shorter is padded
///          by the caller, who knows what of it counts
/// Costs    a system call a read or write
/// Breaks   two runs with one name: the later takes the name, each keeps the bytes of its own file
/// Source   open(2), O_DIRECT; 4096 suits disks with blocks of 512 and of 4096 bytes
/// See      dist/state_file.hpp (a user), tests/base/direct_file_test.cpp
#pragma once
#include "mpt/base/disk.hpp"  // disk
#include "mpt/base/error.hpp" // check, error, join

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>

namespace mpt {

/// Safe to use from several threads, on parts that do not overlap. Gone with its object.
class direct_file {
public:
    static constexpr std::size_t alignment = 4096;

    /// An empty file of that path; one that is there loses its name. Errors begin with `name`.
    /// cached: do without O_DIRECT.
    direct_file(std::string name, std::string path, const disk& d = real_disk, bool cached = false)
        : name_(std::move(name)), path_(std::move(path)), disk_(d) {
        disk_.unlink(path_.c_str()); // of a run that was killed
        const int flags = O_RDWR | O_CREAT | O_EXCL;
#if defined(O_DIRECT)
        if (!cached) file_ = disk_.open(path_.c_str(), flags | O_DIRECT);
        direct_ = file_ >= 0;
        if (!direct_ && !cached) disk_.unlink(path_.c_str()); // some make it, and then refuse
#endif
        if (file_ < 0) file_ = disk_.open(path_.c_str(), flags);
        if (file_ < 0) fail("cannot be made");
    }
    ~direct_file() {
        disk_.close(file_);
        disk_.unlink(path_.c_str());
    }
    direct_file(const direct_file&) = delete;
    direct_file& operator=(const direct_file&) = delete;

    const std::string& name() const { return name_; }
    bool direct() const { return direct_; } // past the cache?

    /// Throws where the disk is full or fails.
    void write(std::uint64_t at, std::span<const std::byte> from) const {
        require_aligned(at, from.data(), from.size());
        while (!from.empty()) {
            const ssize_t n = disk_.pwrite(file_, from.data(), from.size(), off_t(at));
            if (n < 0 && errno == EINTR) continue;
            if (n == 0) errno = ENOSPC; // a disk that takes nothing is full
            if (n <= 0) fail(join("cannot be written at byte ", at));
            at += std::uint64_t(n);
            from = from.subspan(std::size_t(n));
        }
    }

    /// Throws where the file ends before `to` is full.
    void read(std::uint64_t at, std::span<std::byte> to) const {
        require_aligned(at, to.data(), to.size());
        while (!to.empty()) {
            const ssize_t n = disk_.pread(file_, to.data(), to.size(), off_t(at));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) fail(join("cannot be read at byte ", at));
            at += std::uint64_t(n);
            // Within a block only its end stops a read, and O_DIRECT cannot go on from there.
            const bool ends = n == 0 || at % alignment != 0;
            to = to.subspan(std::size_t(n));
            check(to.empty() || !ends, name_, ": ends at byte ", at, ", wanted ", to.size(),
                  " bytes more; somebody cut it: resume from a checkpoint");
        }
    }

private:
    void require_aligned(std::uint64_t at, const void* memory, std::size_t bytes) const {
        check(at % alignment == 0 && bytes % alignment == 0 &&
                  reinterpret_cast<std::uintptr_t>(memory) % alignment == 0,
              name_, ": ", bytes, " bytes at ", at, " of memory at ", memory, "; all three are ",
              "multiples of ", alignment);
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw error(join(name_, ": ", what, " (", std::strerror(errno),
                         "); free some space, or choose a folder on a disk that works"));
    }

    std::string name_, path_;
    const disk& disk_;
    int file_ = -1;
    bool direct_ = false;
};

} // namespace mpt
