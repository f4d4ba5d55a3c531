// SPDX-License-Identifier: MIT
/// @file thread_pool.hpp
/// Numbered tasks over a few threads; the same tasks for any number of them.  tier 0, needs: std
///          only
///
/// Idea     for_each(tasks, f) calls f(task, worker) once for each task. Which worker takes a task
///          is chance, what a task covers is not: work is cut by its size, never by the thread
///          count, and a sum is made of one part a task, added in task order. So a sum has the same
///          bits on 1 thread and on 64.
/// Costs    waiting workers spin for some microseconds, then sleep: threads that spin on
///          collapse on a machine whose cores are shared
/// Breaks   f that calls for_each of the same pool (runs at once, on the calling thread alone)
/// See      tests/base/thread_pool_test.cpp
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace mpt {

/// `threads` threads, the caller's among them. One caller at a time; others wait their turn.
class thread_pool {
public:
    explicit thread_pool(int threads = int(std::thread::hardware_concurrency())) {
        for (int worker = 1; worker < threads; ++worker)
            threads_.emplace_back([this, worker] { serve(worker); });
    }
    ~thread_pool() {
        {
            const std::lock_guard hold(lock_);
            stop_ = true;
            ++generation_;
        }
        wake_.notify_all();
        for (std::thread& t : threads_) t.join();
    }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    /// Threads that take tasks; `worker` below is in [0, size()).
    int size() const { return int(threads_.size()) + 1; }

    /// f(task, worker) for every task in [0, tasks); returns when all are done. The first exception
    /// is rethrown here, the tasks not yet begun are left out.
    template <class F>
    void for_each(std::size_t tasks, F&& f) {
        if (tasks <= 1 || threads_.empty() || inside()) {
            for (std::size_t task = 0; task < tasks; ++task) f(task, inside() ? own_worker() : 0);
            return;
        }
        const std::lock_guard turn(turn_);
        job next;
        next.call = [](void* g, std::size_t task, int worker) {
            (*static_cast<std::remove_reference_t<F>*>(g))(task, worker);
        };
        next.f = const_cast<void*>(static_cast<const void*>(&f));
        next.tasks = tasks;
        {
            const std::lock_guard hold(lock_);
            job_ = &next;
            busy_.store(int(threads_.size()), std::memory_order_relaxed);
            generation_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        work(next, 0);
        wait_for([&] { return busy_.load(std::memory_order_acquire) == 0; }, done_);
        if (next.failed) std::rethrow_exception(next.failed);
    }

    /// f(begin, end, worker) over [0, n) in pieces of `grain` (the last may be shorter).
    template <class F>
    void for_ranges(std::size_t n, std::size_t grain, F&& f) {
        const std::size_t step = std::max<std::size_t>(grain, 1);
        for_each((n + step - 1) / step, [&](std::size_t task, int worker) {
            f(task * step, std::min(n, (task + 1) * step), worker);
        });
    }

private:
    struct job {
        void (*call)(void*, std::size_t, int) = nullptr;
        void* f = nullptr;
        std::size_t tasks = 0;
        std::atomic<std::size_t> next = 0;
        std::mutex lock;
        std::exception_ptr failed;
    };

    // Which pool's task this thread is in, and as which worker.
    struct place_in_pool {
        const thread_pool* pool = nullptr;
        int worker = 0;
    };
    static place_in_pool& here() {
        static thread_local place_in_pool p;
        return p;
    }
    bool inside() const { return here().pool == this; }
    static int own_worker() { return here().worker; }

    void work(job& j, int worker) {
        const place_in_pool before = here();
        here() = {this, worker};
        for (std::size_t task; (task = j.next.fetch_add(1, std::memory_order_relaxed)) < j.tasks;) {
            try {
                j.call(j.f, task, worker);
            } catch (...) {
                const std::lock_guard hold(j.lock);
                if (!j.failed) j.failed = std::current_exception();
                j.next.store(j.tasks, std::memory_order_relaxed); // begin no further task
            }
        }
        here() = before;
    }

    void serve(int worker) {
        std::uint64_t seen = 0;
        for (;;) {
            wait_for([&] { return generation_.load(std::memory_order_acquire) != seen; }, wake_);
            seen = generation_.load(std::memory_order_acquire);
            if (stop_) return;
            work(*job_, worker);
            if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
                { const std::lock_guard hold(lock_); } // so that the wait below cannot miss it
                done_.notify_one();
            }
        }
    }

    // Spin for a while, since the next operation is mostly at hand, then sleep.
    template <class Ready>
    void wait_for(Ready ready, std::condition_variable& signal) {
        for (int i = 0; i < spins; ++i) {
            if (ready()) return;
            if (i % 64 == 63) std::this_thread::yield();
        }
        std::unique_lock hold(lock_);
        signal.wait(hold, ready);
    }

    static constexpr int spins = 4000;
    std::vector<std::thread> threads_;
    std::mutex turn_; // one job at a time
    std::mutex lock_;
    std::condition_variable wake_, done_;
    std::atomic<std::uint64_t> generation_ = 0;
    std::atomic<int> busy_ = 0;
    std::atomic<bool> stop_ = false;
    job* job_ = nullptr;
};

} // namespace mpt
