// SPDX-License-Identifier: MIT
// watched_disk.hpp -- the calls of a disk that note what is read and written, and how much of it;
// and, beside them, what the run does meanwhile.
#pragma once
#include "mpt/base/disk.hpp" // disk, real_disk

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

//! [watched_disk]
class watched_disk {
public:
    enum lane { reads, writes, uses, updates };
    struct event {
        lane what;
        bool weights; // else states; of reads and writes
        int unit;
        bool begins;
    };
    struct bytes {
        std::size_t read = 0, written = 0;
    };

    watched_disk() {
        calls.open = [this](const char* path, int flags) {
            const int f = mpt::real_disk.open(path, flags);
            const std::lock_guard hold(lock_);
            const char* const number = std::strpbrk(std::strrchr(path, '-'), "0123456789");
            files_[f] = {std::strstr(path, ".weights") != nullptr, std::atoi(number)};
            return f;
        };
        calls.pread = [this](int f, void* to, std::size_t n, off_t at) {
            note(reads, f, true);
            const ssize_t done = mpt::real_disk.pread(f, to, n, at);
            note(reads, f, false, n);
            return done;
        };
        calls.pwrite = [this](int f, const void* from, std::size_t n, off_t at) {
            note(writes, f, true);
            const ssize_t done = mpt::real_disk.pwrite(f, from, n, at);
            note(writes, f, false, n);
            return done;
        };
    }

    mpt::disk calls; // a chapter may break them
    void note(lane what, int unit, bool weights, bool begins) {
        {
            const std::lock_guard hold(lock_);
            seen_.push_back({what, weights, unit, begins});
        }
        changed_.notify_all();
    }
    // Returns when the weights of `unit` have begun to be read for the n-th time.
    void await_read(int unit, long n) {
        std::unique_lock hold(lock_);
        changed_.wait_for(hold, std::chrono::seconds(60), [&] { return times_read(unit) >= n; });
    }
    long read(int unit) const {
        const std::lock_guard hold(lock_);
        return times_read(unit);
    }
    std::vector<event> all() const {
        const std::lock_guard hold(lock_);
        return seen_;
    }
    bytes of(bool weights) const {
        const std::lock_guard hold(lock_);
        return moved_[weights];
    }
    void clear() { // what was seen until now
        const std::lock_guard hold(lock_);
        seen_.clear();
        moved_[0] = moved_[1] = {};
    }

private:
    struct file {
        bool weights;
        int unit;
    };
    void note(lane what, int f, bool begins, std::size_t done = 0) {
        file of;
        {
            const std::lock_guard hold(lock_);
            of = files_[f];
            (what == reads ? moved_[of.weights].read : moved_[of.weights].written) += done;
        }
        note(what, of.unit, of.weights, begins);
    }
    long times_read(int unit) const {
        long n = 0;
        for (const event& e : seen_)
            n += e.what == reads && e.weights && e.unit == unit && e.begins;
        return n;
    }
    mutable std::mutex lock_;
    std::condition_variable changed_;
    std::map<int, file> files_; // by descriptor
    std::vector<event> seen_;
    bytes moved_[2]; // of states, of weights
};
//! [watched_disk]
