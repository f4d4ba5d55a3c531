// SPDX-License-Identifier: MIT
/// @file thread_pool.hpp
/// Numbered tasks over a few threads.                                 tier 0, needs: base/error.hpp
///
/// Idea     for_each(tasks, f) calls f(task, worker) once for each task. Which worker takes a task
///          is chance, what a task covers is not: work is cut by its size, never by the thread
///          count, and a sum is made of one part a task, added in task order. So a sum has the same
///          bits on 1 thread and on 64.
/// Costs    waiting workers spin for some microseconds, then sleep: threads that spin on collapse
///          on a machine whose cores are shared. A worker that wakes too late is not waited for.
/// Breaks   f that calls for_each of the same pool (runs at once, on the calling thread alone)
/// See      tests/base/thread_pool_test.cpp
#pragma once
#include "mpt/base/error.hpp" // error, join

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

namespace mpt {

/// `threads` threads, the caller's among them. One caller at a time; others wait their turn.
class thread_pool {
public:
    /// Throws mpt::error where the system does not give that many.
    explicit thread_pool(int threads = int(std::thread::hardware_concurrency())) {
        try {
            for (int worker = 1; worker < threads; ++worker)
                threads_.emplace_back([this, worker] { serve(worker); });
        } catch (const std::system_error& e) {
            const std::size_t got = threads_.size() + 1;
            stop();
            throw error(join("thread_pool: the system gives ", got, " threads, wanted ", threads,
                             " (", e.what(), "); give a smaller --threads"));
        }
    }
    ~thread_pool() { stop(); }
    thread_pool(const thread_pool&) = delete;
    thread_pool& operator=(const thread_pool&) = delete;

    /// Threads that take tasks; `worker` below is in [0, size()).
    int size() const { return int(threads_.size()) + 1; }

    /// f(task, worker) for every task in [0, tasks); returns when all are done. The first exception
    /// is rethrown here, the tasks not yet begun are left out.
    template <class F>
    void for_each(std::size_t tasks, F&& f) {
        if (inside()) { // on this thread, as the worker that it is
            for (std::size_t task = 0; task < tasks; ++task) f(task, here().worker);
            return;
        }
        const std::lock_guard turn(turn_); // worker 0 is one thread at a time
        if (tasks <= 1 || threads_.empty()) {
            const visit as(this, 0);
            for (std::size_t task = 0; task < tasks; ++task) f(task, 0);
            return;
        }
        job next;
        next.call = [](void* g, std::size_t task, int worker) {
            (*static_cast<std::remove_reference_t<F>*>(g))(task, worker);
        };
        next.f = const_cast<void*>(static_cast<const void*>(&f));
        next.tasks = tasks;
        offer(&next);
        wake_.notify_all();
        work(next, 0);
        offer(nullptr); // who has not come by now is not waited for
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
    void stop() {
        {
            const std::lock_guard hold(lock_);
            stop_ = true;
            ++generation_;
        }
        wake_.notify_all();
        for (std::thread& t : threads_) t.join();
    }

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
    struct visit {
        visit(const thread_pool* pool, int worker) { here() = {pool, worker}; }
        ~visit() { here() = before; }
        visit(const visit&) = delete;
        visit& operator=(const visit&) = delete;
        place_in_pool before = here();
    };

    void work(job& j, int worker) {
        const visit as(this, worker);
        for (std::size_t task; (task = j.next.fetch_add(1, std::memory_order_relaxed)) < j.tasks;) {
            try {
                j.call(j.f, task, worker);
            } catch (...) {
                const std::lock_guard hold(j.lock);
                if (!j.failed) j.failed = std::current_exception();
                j.next.store(j.tasks, std::memory_order_relaxed); // begin no further task
            }
        }
    }

    // Let the workers see a job, or (nullptr) that there is none for them any more.
    void offer(job* j) {
        const std::lock_guard hold(lock_);
        job_ = j;
        if (j) generation_.fetch_add(1, std::memory_order_release);
    }

    // The job that was offered, if it is not over yet; its end then waits for us.
    job* enter(std::uint64_t& seen) {
        const std::lock_guard hold(lock_);
        seen = generation_.load(std::memory_order_relaxed);
        if (job_) busy_.fetch_add(1, std::memory_order_relaxed);
        return job_;
    }

    void serve(int worker) {
        std::uint64_t seen = 0;
        while (!stop_) {
            wait_for([&] { return generation_.load(std::memory_order_acquire) != seen; }, wake_);
            job* const j = enter(seen);
            if (!j) continue;
            work(*j, worker);
            if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
                { const std::lock_guard hold(lock_); } // so that the wait for it cannot miss it
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
    std::atomic<int> busy_ = 0; // workers in the job, without the caller
    std::atomic<bool> stop_ = false;
    job* job_ = nullptr;
};

} // namespace mpt
