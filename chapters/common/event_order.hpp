// SPDX-License-Identifier: MIT
// event_order.hpp -- what begins and ends in which order, on any thread; and meetings: one waits
// for what is to happen beside it. No clock decides: two things overlapped if each began before the
// other's end, and where one was held until then, it was no accident.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

//! [order]
class event_order {
public:
    enum edge { begins, ends };
    struct event {
        std::string what;
        edge which;
    };

    void note(const std::string& what, edge which) {
        {
            const std::lock_guard hold(lock_);
            seen_.push_back({what, which});
        }
        changed_.notify_all();
    }
    // Returns when it has happened. Where it does not come at all, the first who waits gives up
    // after `seconds`, and from then on nobody waits.
    void await(const std::string& what, edge which) {
        std::unique_lock hold(lock_);
        missed_ |= !changed_.wait_for(hold, std::chrono::seconds(missed_ ? 0 : seconds),
                                      [&] { return find(what, which) >= 0; });
    }
    bool missed() const { return missed_; }

    // Its place in the order; -1: it did not happen.
    long at(const std::string& what, edge which) const {
        const std::lock_guard hold(lock_);
        return find(what, which);
    }
    // Did `a` and `b` overlap?
    bool beside(const std::string& a, const std::string& b) const {
        return at(a, begins) >= 0 && at(b, begins) >= 0 && at(a, begins) < at(b, ends) &&
               at(b, begins) < at(a, ends);
    }
    std::vector<event> all() const {
        const std::lock_guard hold(lock_);
        return seen_;
    }

private:
    static constexpr int seconds = 60;
    long find(const std::string& what, edge which) const {
        const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const event& e) {
            return e.what == what && e.which == which;
        });
        return found == seen_.end() ? -1 : long(found - seen_.begin());
    }
    mutable std::mutex lock_;
    std::condition_variable changed_;
    std::vector<event> seen_;
    bool missed_ = false;
};
//! [order]
