// SPDX-License-Identifier: MIT
/// @file transfers.hpp
/// Copies between the device and the host, on a thread of their own.       tier 6, needs:
/// base/device_span.hpp base/error.hpp comm/handle.hpp comm/progress.hpp
///
/// Idea     A GPU copies while it computes. Here a second thread does, on the CPU by memcpy between
///          the arena and the rest, with CUDA by copies in a stream of their own: what is started
///          is done in its turn, and its memory belongs to it until its handle was waited for.
/// Costs    a thread; bytes are counted, each way: a step's are 2 M + 2 a parameter where
///          gradients leave every micro-batch, else 4 + 2 (fp32 sums), 2 + 2 for a window of one;
///          where weights are fetched (weight_place.hpp) 4 M bytes come in, not 2
/// Breaks   memory that is reused before wait(): torn gradients, in some steps, on some machines
/// See      leaving_rank.hpp, host_sums.hpp, device_weights.hpp, host_weights.hpp,
///          file_weights.hpp (users), tests/dist/offload_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span, device_view
#include "mpt/base/error.hpp"       // check
#include "mpt/comm/handle.hpp"      // handle
#include "mpt/comm/progress.hpp"    // progress

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>

namespace mpt {

/// How bytes move. `in` and `out` return when they have moved.
struct transfer_calls {
    using copy = std::function<void(void* to, const void* from, std::size_t bytes)>;
    copy in = [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); };
    copy out = [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); };
    /// Called by whoever starts a job, before: with CUDA it makes the stream of copies wait for the
    /// kernels that were launched until now.
    std::function<void()> before = [] {};
};

class transfers {
public:
    explicit transfers(transfer_calls calls = {}) : calls_(std::move(calls)) {}

    /// `job`, which copies, after those that were started before.
    [[nodiscard]] handle start(std::function<void()> job) {
        calls_.before();
        return queue_.start(std::move(job), [] {});
    }

    /// To the device, from it; both of one length. For jobs, and for whoever wants to wait.
    template <class T>
    void in(device_span<T> to, device_view<T> from) {
        move(calls_.in, in_, to, from);
    }
    template <class T>
    void out(device_span<T> to, device_view<T> from) {
        move(calls_.out, out_, to, from);
    }

    std::size_t bytes_in() const { return in_; } // since the beginning
    std::size_t bytes_out() const { return out_; }

private:
    template <class T>
    static void move(const transfer_calls::copy& call, std::atomic<std::size_t>& count,
                     device_span<T> to, device_view<T> from) {
        check(to.size() == from.size(), "transfers: ", from.size(), " elements to ", to.size(),
              "; give the same part of both");
        if (to.empty()) return;
        call(to.data(), from.data(), to.bytes());
        count += to.bytes();
    }

    transfer_calls calls_;
    std::atomic<std::size_t> in_ = 0, out_ = 0;
    progress queue_; // last: ends before what its jobs use
};

} // namespace mpt
