// SPDX-License-Identifier: MIT
/// @file token_feed.hpp
/// A window's tokens on their way to the device, while the step before computes.  tier 5, needs:
/// base/memory.hpp nn/device.hpp
///
/// Idea     Two slots. While the device works on one, the host fills the other's pinned memory and
///          the copy goes through a stream of its own. Four marks keep the order: a copy waits
///          until the step that read its slot is over, a step until its copy has come, the host
///          until the slot's last copy has left. Nobody waits for the device as a whole.
/// Costs    2 windows of 8 bytes a token (input and target), on the device and in pinned memory
/// Breaks   one slot: the copy waits for the step, and the step for the copy.  Filling a slot
///          without asking whether its copy has left: tokens of two steps, mixed
/// See      nn/device.hpp, tests/train/token_feed_test.cpp
#pragma once
#include "mpt/base/memory.hpp" // buffer, memory
#include "mpt/nn/device.hpp"   // device_queue, mark

#include <cstddef>
#include <span>

namespace mpt {

class token_feed {
public:
    /// For windows of `tokens` tokens. The memory's host place is pinned.
    token_feed(const device_queue& queue, memory& mem, std::size_t tokens)
        : queue_(queue), n_(tokens), device_(mem, kind::data, 4 * tokens, "tokens of two windows"),
          host_(mem, kind::data, 4 * tokens, "tokens of two windows", place::host) {}

    /// Bytes on the device, and as many pinned ones on the host.
    static std::size_t bytes(std::size_t tokens) { return 4 * tokens * sizeof(int); }

    /// Where the host writes the window of `step`; waits until the last copy from there has left.
    std::span<int> inputs(long step) {
        const std::size_t s = slot(step);
        if (sent_[s]) queue_.wait_for(left_[s]);
        sent_[s] = false;
        return host_.host_span().subspan(s * 2 * n_, n_);
    }
    /// Call inputs() first.
    std::span<int> targets(long step) {
        return host_.host_span().subspan(slot(step) * 2 * n_ + n_, n_);
    }

    /// The window of `step` goes to the device; what is put into the work stream from now on finds
    /// it there.
    void send(long step) {
        const std::size_t s = slot(step);
        if (read_[s]) queue_.await(over_[s], queue_.copies);
        queue_.copy_in(device_.span().data() + s * 2 * n_, host_.host_span().data() + s * 2 * n_,
                       2 * n_ * sizeof(int), queue_.copies);
        queue_.put(left_[s], queue_.copies);
        sent_[s] = true;
        queue_.await(left_[s], queue_.work);
    }
    device_span<const int> device_inputs(long step) const {
        return device_span<const int>(device_.span()).subspan(slot(step) * 2 * n_, n_);
    }
    device_span<const int> device_targets(long step) const {
        return device_span<const int>(device_.span()).subspan(slot(step) * 2 * n_ + n_, n_);
    }
    /// The work that reads the window of `step` is in the stream.
    void over(long step) {
        queue_.put(over_[slot(step)], queue_.work);
        read_[slot(step)] = true;
    }

    static std::size_t slot(long step) { return std::size_t(step % 2); }

private:
    const device_queue& queue_;
    std::size_t n_;
    buffer<int> device_, host_; // (2,2,n): slot, inputs or targets
    mark left_[2], over_[2];    // the copy is done; the step is done
    bool sent_[2] = {}, read_[2] = {};
};

} // namespace mpt
