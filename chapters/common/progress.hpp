// SPDX-License-Identifier: MIT
// progress.hpp -- how far a long run is, on stderr: one line that is rewritten on a terminal, plain
// lines otherwise (about twenty a run, and one at the end).
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

class progress {
public:
    // steps: the last step's number. first: steps done before this process.
    explicit progress(long steps, long first = 0)
        : steps_(steps), first_(first), every_(std::max(1L, steps / 20)) {}
    ~progress() { finish(); }

    // After step `done` (from 1). `text` is what the step has to say.
    void show(long done, const std::string& text) {
        const bool last = done == steps_;
        if (terminal_ ? !(last || seconds() - shown_ > 0.1) : !(last || done % every_ == 0)) return;
        shown_ = seconds();
        const double left = seconds() / double(std::max(1L, done - first_)) * double(steps_ - done);
        std::string line = "step " + std::to_string(done) + "/" + std::to_string(steps_) + "  " +
                           text + "  " + clock(left) + " left";
        if (terminal_) line.resize(std::min(line.size(), columns() - 1)); // no line must wrap
        std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
        open_ = terminal_;
        std::fflush(stderr);
    }

    // A line of its own, which does not get lost in the one that is rewritten.
    void say(const std::string& text) {
        finish();
        std::fprintf(stderr, "%s\n", text.c_str());
    }

    // Leave the line that is rewritten.
    void finish() {
        if (open_) std::fputc('\n', stderr);
        open_ = false;
    }

    double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

    static std::size_t columns() { // of the terminal
        winsize size{};
        return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
    }

    static std::string clock(double seconds) { // "2:07", "1:02:07"
        const long s = long(seconds + 0.5);
        char text[32];
        if (s >= 3600)
            std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
        else
            std::snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
        return text;
    }

private:
    long steps_, first_, every_;
    bool terminal_ = isatty(STDERR_FILENO) != 0;
    bool open_ = false;
    double shown_ = -1;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};
