// SPDX-License-Identifier: MIT
/// @file file.hpp
/// Files: read in parts, and written whole or not at all.                  tier 0, needs:
/// base/disk.hpp base/error.hpp
///
/// Idea     A new file grows under another name beside the old one. It is flushed to the disk, then
///          renamed: readers see the old bytes or the new ones, never half of them; a full disk, a
///          kill or a power cut at any moment leaves the old file as it was.
/// Costs    disk: old and new at once.  time: two fsyncs a file
/// Breaks   two programs that write the same path at once share the temporary name PATH.tmp
/// Source   rename(2), fsync(2): the folder is flushed too, or the new name may be lost
/// See      train/safetensors.hpp (a user), tests/base/file_test.cpp
#pragma once
#include "mpt/base/disk.hpp"  // disk, flush_folder
#include "mpt/base/error.hpp" // check, error, join

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpt {

inline constexpr std::size_t largest_write = 1u << 30; // Linux takes 2 GiB - 4 KiB a call

/// A regular file that is read. Every error begins with "KIND PATH: ".
class input_file {
public:
    input_file(std::string kind, const std::string& path) : name_(std::move(kind) + ' ' + path) {
        file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not block
        check(file_ >= 0, name_, ": cannot be opened (", std::strerror(errno),
              "); give a file that exists and can be read");
        struct stat s {};
        const bool known = fstat(file_, &s) == 0;
        if (known && S_ISREG(s.st_mode)) {
            size_ = std::uint64_t(s.st_size);
            return;
        }
        close(file_);
        throw error(join(name_, ": is ",
                         known && S_ISDIR(s.st_mode) ? "a folder" : "no regular file",
                         ", wanted a file; name the file itself"));
    }
    ~input_file() { close(file_); }
    input_file(const input_file&) = delete;
    input_file& operator=(const input_file&) = delete;

    const std::string& name() const { return name_; } // "KIND PATH"
    std::uint64_t size() const { return size_; }      // bytes, when it was opened

    /// Fill `to` with the bytes from `offset` on. Throws where the file ends before.
    void read(std::uint64_t offset, std::span<std::byte> to) const {
        while (!to.empty()) {
            const ssize_t n =
                pread(file_, to.data(), std::min(to.size(), largest_write), off_t(offset));
            if (n < 0 && errno == EINTR) continue;
            check(n >= 0, name_, ": cannot be read at byte ", offset, " (", std::strerror(errno),
                  "); check the disk");
            check(n > 0, name_, ": ends at byte ", offset, ", wanted ", to.size(),
                  " bytes more; it was cut short, get it anew");
            offset += std::uint64_t(n);
            to = to.subspan(std::size_t(n));
        }
    }

private:
    std::string name_;
    int file_ = -1;
    std::uint64_t size_ = 0;
};

/// A new file that grows. Nothing is left of it unless finish() was reached.
class new_file {
public:
    /// `name`: what errors begin with. A file of that path is in the way of nobody: it goes.
    new_file(std::string name, std::string path, const disk& d = real_disk)
        : name_(std::move(name)), path_(std::move(path)), disk_(d) {
        disk_.unlink(path_.c_str()); // of a run that was killed
        file_ = disk_.open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL);
        if (file_ < 0) fail("cannot be written");
    }
    ~new_file() {
        if (file_ < 0) return;
        disk_.close(file_);
        disk_.unlink(path_.c_str());
    }
    new_file(const new_file&) = delete;
    new_file& operator=(const new_file&) = delete;

    void write(std::span<const std::byte> from) {
        while (!from.empty()) {
            const ssize_t n = disk_.write(file_, from.data(), std::min(from.size(), largest_write));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) fail(join("cannot be written past byte ", size_));
            size_ += std::uint64_t(n);
            from = from.subspan(std::size_t(n));
        }
    }
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    std::uint64_t size() const { return size_; } // bytes written

    /// Flush and close; its name is not flushed: that is its folder's.
    void finish() {
        if (disk_.fsync(file_) != 0) fail("cannot be flushed");
        if (disk_.close(std::exchange(file_, -1)) != 0) {
            const int fault = errno;
            disk_.unlink(path_.c_str());
            errno = fault;
            fail("cannot be closed");
        }
    }

    /// Throws an error of this file, with what errno says.
    [[noreturn]] void fail(const std::string& what) const {
        throw error(join(name_, ": ", what, " (", std::strerror(errno),
                         "); free some space or choose a folder that exists and can be written"));
    }

private:
    std::string name_, path_;
    const disk& disk_;
    int file_ = -1;
    std::uint64_t size_ = 0;
};

/// A file that appears under its name at commit(). Without one nothing is left of it.
class output_file {
public:
    /// Refused where the path is a folder or a device: renaming would put a file in its place.
    output_file(const std::string& kind, const std::string& path, const disk& d = real_disk)
        : path_(free_or_regular(kind, path)), temporary_(path + ".tmp"), disk_(d),
          file_(kind + ' ' + path, temporary_, d) {}

    void write(std::span<const std::byte> from) { file_.write(from); }
    void write(std::string_view text) { file_.write(text); }

    /// Flush and rename: from here on the new bytes are under the name. Once, and last.
    void commit() {
        file_.finish();
        if (disk_.rename(temporary_.c_str(), path_.c_str()) != 0) {
            const int fault = errno;
            disk_.unlink(temporary_.c_str());
            errno = fault;
            file_.fail("cannot get its name");
        }
        if (!flush_folder(disk_, folder_of(path_)))
            file_.fail("is written, but its folder cannot be flushed");
    }

private:
    static const std::string& free_or_regular(const std::string& kind, const std::string& path) {
        struct stat s {};
        const bool there = stat(path.c_str(), &s) == 0;
        check(!there || S_ISREG(s.st_mode), kind, ' ', path, ": is ",
              S_ISDIR(s.st_mode) ? "a folder" : "no regular file",
              ", wanted a file or a free name; choose another");
        return path;
    }

    std::string path_, temporary_;
    const disk& disk_;
    new_file file_;
};

} // namespace mpt
