// SPDX-License-Identifier: MIT
/// @file watchdog.hpp
/// Ends a block that runs for ever.                                        tier 2, needs: std only
///
/// Idea     A loop that waits for what no thread will write never comes back to the scheduler. So a
///          thread of the watchdog's looks now and then whether each block that ran at the last
///          look is still the same one. After watch_seconds it tells the block that it is late: the
///          next word of the kernel then throws. Where no word comes, a signal (SIGURG) finds the
///          loop and leaves its stack for good.
/// Costs    two stores a block, some looks a minute
/// Breaks   memory that the endless thread had allocated is not given back
/// See      block.hpp (late), settings.hpp (watch_seconds), tests/simt/watchdog_test.cpp
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <pthread.h>
#include <signal.h>

namespace mpt::simt {

/// One system thread that runs blocks.
struct watched {
    pthread_t thread = pthread_self();
    std::atomic<std::uint64_t> turns = 0; // odd: a block runs. Goes up when one begins or ends
    std::atomic<bool> late = false;
    std::uint64_t seen = 0;               // `turns` at the last look that found a change,
    std::chrono::steady_clock::time_point since; // and when
};

class watchdog {
public:
    static watchdog& here() {
        static watchdog w;
        return w;
    }

    void add(watched* w) {
        const std::lock_guard hold(lock_);
        all_.push_back(w);
    }
    void remove(watched* w) {
        const std::lock_guard hold(lock_);
        all_.erase(std::find(all_.begin(), all_.end(), w));
    }

    /// From now on a block may run so long; interrupted() is the handler of the signal, which does
    /// nothing if its thread is not in a kernel's code. 0: for ever.
    void watch(double seconds, void (*interrupted)(int)) {
        if (seconds == seconds_.load(std::memory_order_relaxed)) return;
        const std::lock_guard hold(lock_);
        seconds_.store(seconds, std::memory_order_relaxed);
        interrupted_ = interrupted;
        if (!thread_.joinable() && seconds > 0) thread_ = std::thread([this] { look(); });
        changed_.notify_all();
    }

    ~watchdog() {
        {
            const std::lock_guard hold(lock_);
            stop_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }
    watchdog(const watchdog&) = delete;
    watchdog& operator=(const watchdog&) = delete;

private:
    watchdog() = default;

    void look() {
        std::unique_lock hold(lock_);
        while (!stop_) {
            const double seconds = seconds_.load(std::memory_order_relaxed);
            if (seconds <= 0) {
                changed_.wait(hold);
                continue;
            }
            changed_.wait_for(hold, std::chrono::duration<double>(seconds / 8));
            const auto now = std::chrono::steady_clock::now();
            for (watched* w : all_) {
                const std::uint64_t turns = w->turns.load(std::memory_order_acquire);
                if (turns != w->seen || turns % 2 == 0) {
                    w->seen = turns;
                    w->since = now;
                } else if (now - w->since > std::chrono::duration<double>(seconds)) {
                    w->late.store(true);
                    interrupt(*w);
                }
            }
        }
    }

    void interrupt(const watched& w) {
        if (!installed_) {
            struct sigaction action {};
            action.sa_handler = interrupted_;
            action.sa_flags = SA_NODEFER | SA_RESTART; // it may never return: do not hold it back
            sigaction(SIGURG, &action, nullptr);
            installed_ = true;
        }
        pthread_kill(w.thread, SIGURG);
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<watched*> all_;
    std::atomic<double> seconds_ = 0;
    void (*interrupted_)(int) = nullptr;
    bool stop_ = false, installed_ = false;
    std::thread thread_;
};

} // namespace mpt::simt
