// SPDX-License-Identifier: MIT
/// @file handle.hpp
/// A collective on its way.                                                 tier 2, needs: std only
///
/// Idea     A start_ verb returns one; wait() returns when the result is in place. What was passed
///          to the verb belongs to the collective until then.
/// Breaks   a handle that is dropped without wait(), by mistake or since an exception ends the
///          rank: how the others fared would never be known, so the whole run ends with an error,
///          and the buffers may be freed. Declare a handle behind its buffers: it ends first
/// See      communicator.hpp (who makes them), tests/comm/handle_test.cpp
#pragma once
#include <functional>
#include <utility>

namespace mpt {

class [[nodiscard]] handle {
public:
    handle() = default; // of one that is done
    /// wait: until it is done. drop: the same for a rank that is about to end, and has to end it.
    explicit handle(std::function<void()> wait, std::function<void()> drop = nullptr)
        : wait_(std::move(wait)), drop_(std::move(drop)) {}
    handle(handle&& other) noexcept { swap(other); }
    void operator=(handle&& other) noexcept { // no handle&: nvcc would want it used
        handle moved(std::move(other));       // what this one had is dropped at the end
        swap(moved);
    }
    ~handle() {
        if (wait_ && drop_) drop_();
    }

    /// Returns when the result is in place; throws what ended the collective. On a GPU the stream
    /// of the caller's kernels waits, not the host.
    void wait() {
        if (const auto wait = std::exchange(wait_, nullptr)) wait();
    }
    bool pending() const { return bool(wait_); } // wait() has not been called

private:
    void swap(handle& other) noexcept {
        std::swap(wait_, other.wait_);
        std::swap(drop_, other.drop_);
    }

    std::function<void()> wait_, drop_;
};

} // namespace mpt
