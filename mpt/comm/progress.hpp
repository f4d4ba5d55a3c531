// SPDX-License-Identifier: MIT
/// @file progress.hpp
/// A rank's second thread: collectives that go on while the rank computes. tier 2, needs:
/// comm/handle.hpp
///
/// Idea     As a GPU has a stream for communication: what is started is done in the order it was
///          started, by a thread of its own, so that all ranks meet in the same order. A verb that
///          waits anyway is done by the caller where nothing is before it.
/// Costs    a thread a communicator, from the first start on; two wake-ups a started collective
/// Breaks   a started collective's buffer freed before it is done: a handle that is dropped waits
/// See      thread_rank.hpp (whose it is), tests/comm/progress_test.cpp
#pragma once
#include "mpt/comm/handle.hpp" // handle

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace mpt {

class progress {
public:
    progress() = default;
    ~progress() {
        {
            const std::lock_guard hold(lock_);
            ending_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join(); // after what is queued
    }

    /// `work` in its turn, on the other thread. `abandon` is called when the handle is dropped
    /// before wait(), and has to make `work` end soon.
    handle start(std::function<void()> work, std::function<void()> abandon) {
        task next{std::move(work), {}};
        const std::shared_future<void> done = next.done.get_future().share();
        {
            const std::lock_guard hold(lock_);
            if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
            queue_.push_back(std::move(next));
        }
        changed_.notify_all();
        return handle([done] { done.get(); },
                      [done, abandon = std::move(abandon)] {
                          abandon();
                          done.wait();
                      });
    }

    /// `work` after all that was started, on this thread if nothing is under way.
    template <class Work>
    void run(Work work) {
        {
            std::unique_lock hold(lock_);
            changed_.wait(hold, [&] { return queue_.empty() && !busy_; });
        }
        work();
    }

    /// Is something under way? No, when all handles have been waited for.
    bool pending() const {
        const std::lock_guard hold(lock_);
        return !queue_.empty() || busy_;
    }

private:
    struct task {
        std::function<void()> work;
        std::promise<void> done;
    };

    void serve() {
        std::unique_lock hold(lock_);
        for (;;) {
            changed_.wait(hold, [&] { return ending_ || !queue_.empty(); });
            if (queue_.empty()) return;
            task now = std::move(queue_.front());
            queue_.pop_front();
            busy_ = true;
            hold.unlock();
            std::exception_ptr thrown;
            try {
                now.work();
            } catch (...) {
                thrown = std::current_exception();
            }
            hold.lock();
            busy_ = false; // before it is known to be done: see pending()
            changed_.notify_all();
            thrown ? now.done.set_exception(thrown) : now.done.set_value();
        }
    }

    mutable std::mutex lock_;
    std::condition_variable changed_;
    std::deque<task> queue_;
    bool busy_ = false, ending_ = false;
    std::thread thread_; // of the deque: one caller
};

} // namespace mpt
