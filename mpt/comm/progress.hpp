// SPDX-License-Identifier: MIT
/// @file progress.hpp
/// A rank's second thread: collectives that go on while the rank computes. tier 2, needs:
/// comm/communicator.hpp
///
/// Idea     As a GPU has a stream for communication: what is started is done in the order it was
///          started, by a thread of its own, so that all ranks meet in the same order. A verb that
///          waits anyway is done by the caller where nothing is before it.
/// Costs    a thread a communicator, from the first start on; two wake-ups a started collective
/// Breaks   a started collective's buffer freed before it is done: a handle that is dropped waits
/// See      world.hpp
#pragma once
#include "mpt/comm/communicator.hpp" // handle

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
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
        auto task = std::make_shared<std::packaged_task<void()>>(std::move(work));
        const std::shared_future<void> done = task->get_future().share();
        {
            const std::lock_guard hold(lock_);
            queue_.push_back([task] { (*task)(); });
            if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
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

private:
    void serve() {
        std::unique_lock hold(lock_);
        for (;;) {
            changed_.wait(hold, [&] { return ending_ || !queue_.empty(); });
            if (queue_.empty()) return;
            const auto work = std::move(queue_.front());
            queue_.pop_front();
            busy_ = true;
            hold.unlock();
            work();
            hold.lock();
            busy_ = false;
            changed_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    bool busy_ = false, ending_ = false;
    std::thread thread_; // of the deque: one caller
};

} // namespace mpt
