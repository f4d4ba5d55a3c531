// SPDX-License-Identifier: MIT
/// @file trace.hpp
/// What ran when, as a Chrome trace that Perfetto shows.                   tier 0, needs:
/// base/error.hpp base/json_write.hpp
///
/// Idea     Code that wants to be seen takes a `trace*`; nullptr means off and costs a comparison.
///          A range is one bar from its construction to its end of scope; lanes are the rows. The
///          ranks of one machine, threads or processes, write into one file: each event is one
///          append, and their clock is one.
/// Formula  ts, dur in microseconds since the trace was opened, by the steady clock; pid = rank,
///          tid = lane
/// Costs    one write of about 100 bytes an event, behind a lock; nothing is kept in memory
/// Breaks   a full disk ends the trace, not the run: ok() tells. Ranks of several machines in one
///          file: their clocks differ, and a network's file system may mix their appends up
/// Source   Trace Event Format, array form, whose closing bracket may be missing: when the program
///          dies the file is loadable up to its last event
/// See      ui.perfetto.dev (opens the file), tests/base/trace_test.cpp
#pragma once
#include "mpt/base/error.hpp"      // check, join
#include "mpt/base/json_write.hpp" // quote, number

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace mpt {

/// The rows of one rank.
enum class lane { compute, comm, copy, host };
inline constexpr int lane_count = 4;

inline const char* to_string(lane l) {
    constexpr const char* names[lane_count] = {"compute", "comm", "copy", "host"};
    return names[int(l)];
}

/// One rank's rows of an open file. Safe to use from several threads.
class trace {
public:
    /// A new file. Throws when it cannot be written. shared: others join it, and the bracket at
    /// its end is left to finish().
    explicit trace(const std::string& path, int rank = 0, bool shared = false)
        : trace(path, rank, shared, O_CREAT | O_TRUNC, clock()) {}
    /// More rows, of the rank `rank`, in the file of a shared trace that began at `start`.
    trace(const std::string& path, int rank, double start) : trace(path, rank, true, 0, start) {}

    ~trace() {
        if (!shared_) finish();
        close(file_);
    }
    trace(const trace&) = delete;
    trace& operator=(const trace&) = delete;

    /// This rank has written its last: what comes is dropped.
    void leave() {
        const std::lock_guard hold(lock_);
        ok_ = false;
    }
    /// The file is complete. Of a shared one: by one rank, when all others have left.
    void finish() {
        append("\n]\n");
        leave();
    }

    /// When the trace was opened, in microseconds of the machine's steady clock.
    double start() const { return start_; }
    /// Microseconds since then.
    double now() const { return clock() - start_; }

    /// A bar from `begin` that is `duration` long, both in microseconds. `args` is what its details
    /// show: the inside of a JSON object ("\"bytes\":64"), or nothing.
    void bar(lane l, std::string_view name, double begin, double duration,
             std::string_view args = {}) {
        event('X', l, name, begin, join(",\"dur\":", fixed(duration), ",\"args\":{", args, '}'));
    }
    /// A moment, marked in its lane.
    void instant(lane l, std::string_view name, std::string_view args = {}) {
        event('i', l, name, now(), join(",\"s\":\"t\",\"args\":{", args, '}'));
    }
    /// A curve: its value from now on. A value that is not finite leaves no point.
    void counter(std::string_view name, double value) {
        if (!std::isfinite(value)) return;
        const std::string rest = join(",\"args\":{\"value\":", json::number(value), '}');
        event('C', lane::compute, name, now(), rest);
    }

    /// False once a write has failed, or after leave(); later events are dropped.
    bool ok() const {
        const std::lock_guard hold(lock_);
        return ok_;
    }

private:
    trace(const std::string& path, int rank, bool shared, int flags, double start)
        : file_(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666)), rank_(rank),
          shared_(shared), first_(flags != 0), start_(start) {
        check(file_ >= 0, "trace ", path, ": cannot be written (", std::strerror(errno),
              "); give a file in a folder that exists and can be written");
        name("process_name", 0, join("rank ", rank));
        for (int l = 0; l < lane_count; ++l) name("thread_name", l, to_string(lane(l)));
    }

    static double clock() {
        const std::chrono::duration<double, std::micro> t =
            std::chrono::steady_clock::now().time_since_epoch();
        return t.count();
    }

    // Microseconds with nanoseconds behind the point.
    static std::string fixed(double us) {
        char digits[40];
        return {digits,
                std::to_chars(digits, digits + sizeof digits, us, std::chars_format::fixed, 3).ptr};
    }

    void name(const char* what, int tid, const std::string& name) {
        append(join(std::exchange(first_, false) ? "[\n" : ",\n", "{\"name\":\"", what,
                    "\",\"ph\":\"M\",\"pid\":", rank_, ",\"tid\":", tid,
                    ",\"args\":{\"name\":", json::quote(name), "}}"));
    }

    void event(char phase, lane l, std::string_view name, double ts, const std::string& rest) {
        append(join(",\n{\"name\":", json::quote(name), ",\"ph\":\"", phase,
                    "\",\"ts\":", fixed(ts), ",\"pid\":", rank_, ",\"tid\":", int(l), rest, '}'));
    }

    // The comma stands before an event, so the file misses nothing but its bracket at any moment.
    void append(const std::string& text) {
        const std::lock_guard hold(lock_);
        if (!ok_) return;
        ssize_t n;
        do n = write(file_, text.data(), text.size());
        while (n < 0 && errno == EINTR);
        ok_ = n == ssize_t(text.size());
        if (ok_ || n <= 0) return;
        // half an event would make all of them unreadable
        [[maybe_unused]] const int cut = ftruncate(file_, lseek(file_, 0, SEEK_CUR) - n);
    }

    int file_;
    int rank_;
    bool shared_;  // with other ranks
    bool first_;   // nothing is in the file yet
    double start_; // microseconds of the clock
    mutable std::mutex lock_;
    bool ok_ = true;
};

/// One bar, from here to the end of the scope: `range r(t, lane::comm, "all_reduce");`. `name` must
/// live as long. What is in `args` when the scope ends is shown with it.
struct range {
    range(trace* t, lane l, std::string_view name, std::string details = {})
        : to(t), row(l), what(name), begin(t ? t->now() : 0), args(std::move(details)) {}
    ~range() {
        if (to) to->bar(row, what, begin, to->now() - begin, args);
    }
    range(const range&) = delete;
    range& operator=(const range&) = delete;

    trace* to;
    lane row;
    std::string_view what;
    double begin; // microseconds
    std::string args;
};

/// The two others, where the trace may be off.
inline void trace_instant(trace* t, lane l, std::string_view name, std::string_view args = {}) {
    if (t) t->instant(l, name, args);
}
inline void trace_counter(trace* t, std::string_view name, double value) {
    if (t) t->counter(name, value);
}

} // namespace mpt
