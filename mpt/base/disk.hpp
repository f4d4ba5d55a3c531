// SPDX-License-Identifier: MIT
/// @file disk.hpp
/// The calls that change a disk, where a test can make them fail.           tier 0, needs: std only
///
/// Idea     Whoever writes files gets these calls handed in. A program passes real_disk; a test
///          passes a copy in which the n-th call fails, writes half, or is the last before the
///          lights go out. So every failure of every call can be tried, one after the other.
/// Costs    one indirect call each, beside what a system call costs
/// Breaks   reading does not go through it, but for pread of files that a run writes and reads
///          back: what a reader meets are the files as they are
/// Source   POSIX open, write, fsync, close, rename, mkdir, unlink, rmdir; as SQLite tests itself
///          (sqlite.org/testing.html, I/O error testing and crash testing)
/// See      file.hpp, direct_file.hpp, train/checkpoint.hpp (its users),
///          tests/train/checkpoint_failures_test.cpp
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpt {

/// Each as POSIX has it: -1 and errno where it fails.
struct disk {
    std::function<int(const char* path, int flags)> open = [](const char* path, int flags) {
        return ::open(path, flags | O_CLOEXEC, 0666);
    };
    std::function<ssize_t(int file, const void* from, std::size_t bytes)> write = ::write;
    std::function<int(int file)> fsync = ::fsync;
    std::function<int(int file)> close = ::close;
    std::function<int(const char* from, const char* to)> rename = std::rename;
    std::function<int(const char* path)> mkdir = [](const char* path) {
        return ::mkdir(path, 0777);
    };
    std::function<int(const char* path)> unlink = ::unlink; // a file
    std::function<int(const char* path)> rmdir = ::rmdir;   // an empty folder
    std::function<ssize_t(int file, const void* from, std::size_t bytes, off_t at)> pwrite =
        ::pwrite;
    std::function<ssize_t(int file, void* to, std::size_t bytes, off_t at)> pread = ::pread;
};

inline const disk real_disk;

/// The folder that a path lies in, as a path; "." where it names none.
inline std::string folder_of(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    return slash == path.npos ? "." : path.substr(0, slash + 1);
}

/// Flush the names in a folder: new, renamed and removed ones. False, with errno, where it fails.
/// A folder without the right to list it, or a file system without the call, counts as flushed.
inline bool flush_folder(const disk& d, const std::string& folder) {
    const int f = d.open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    if (f < 0) return errno == EACCES;
    const bool flushed = d.fsync(f) == 0 || errno == EINVAL;
    const int fault = errno;
    d.close(f);
    errno = fault;
    return flushed;
}

} // namespace mpt
