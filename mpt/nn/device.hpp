// SPDX-License-Identifier: MIT
/// @file device.hpp
/// A device's memory, its two queues of work, and a count of what the host asks.  tier 4, needs:
/// base/arena.hpp base/error.hpp kernels/device.cuh
///
/// Idea     Kernels wait in one stream, copies of the next step's tokens in another; marks (events)
///          say what must come before what. A host that waits, or copies, is counted: a step that
///          claims to do neither can be asked.
/// Costs    copies to and from memory that is not pinned wait for the device
/// Breaks   a host that reads what a copy brings before it has waited for the mark behind it
/// See      base/arena.hpp (budgets on this memory), kernels/device.cuh (recorded work),
///          tests/nn/device_test.cpp
#pragma once
#include "mpt/base/arena.hpp"     // memory_source
#include "mpt/base/error.hpp"     // check
#include "mpt/kernels/device.cuh" // cudaStream_t, cudaEvent_t, device_missing, device_name

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

namespace mpt {
namespace kernels { // where CUDA's words are known on both machines

inline void* take_device(std::size_t bytes) {
    void* p = nullptr;
    if (cudaMalloc(&p, bytes) == cudaSuccess) return p;
    cudaGetLastError(); // told by who asked
    return nullptr;
}
inline void* take_pinned(std::size_t bytes) {
    void* p = nullptr;
    if (cudaMallocHost(&p, bytes) == cudaSuccess) return p;
    cudaGetLastError();
    return nullptr;
}

/// Memory of the device, for an arena. It is filled in the order of the work in the streams.
inline memory_source device_memory() {
    return {"the device", take_device, [](void* p) { cudaFree(p); }, take_device,
            [](void* p, std::size_t) { cudaFree(p); },
            [](void* p, int byte, std::size_t n) { cudaMemset(p, byte, n); }};
}

/// Memory of the host that the device copies to and from by itself.
inline memory_source pinned_memory() {
    memory_source s = system_memory();
    s.owner = "the system (pinned memory)";
    s.take = s.region = take_pinned;
    s.give = [](void* p) { cudaFreeHost(p); };
    s.give_region = [](void* p, std::size_t) { cudaFreeHost(p); };
    return s;
}

/// What a host has asked of a device.
struct host_account {
    long copies_in = 0, copies_out = 0;           // to the device, from it
    std::size_t bytes_in = 0, bytes_out = 0;      // of these
    long waits = 0;                               // for all work of the device
    long waits_for_marks = 0;                     // for one mark, which may have passed long ago
};

/// A place in a stream that others can wait for.
class mark {
public:
    mark() { require(cudaEventCreate(&event_), "cudaEventCreate"); }
    mark(const mark&) = delete;
    mark& operator=(const mark&) = delete;
    ~mark() { cudaEventDestroy(event_); }
    cudaEvent_t event() const { return event_; }

private:
    cudaEvent_t event_ = nullptr;
};

class device_queue {
public:
    device_queue() {
        const std::string missing = device_missing();
        check(missing.empty(), "device: ", missing, "; run on the CPU, or on a machine with a GPU");
        require(cudaStreamCreate(&work), "cudaStreamCreate");
        require(cudaStreamCreate(&copies), "cudaStreamCreate");
        until_now_.emplace();
    }
    device_queue(const device_queue&) = delete;
    device_queue& operator=(const device_queue&) = delete;
    ~device_queue() {
        cudaStreamDestroy(copies);
        cudaStreamDestroy(work);
    }

    cudaStream_t work = nullptr;   // kernels, in order
    cudaStream_t copies = nullptr; // what need not wait for them
    mutable host_account account;
    /// How the host waits for an event, where kernels wait for other ranks; empty: as long as it
    /// takes.
    std::function<void(void* event)> patience;

    /// Done when the stream comes to it. Only from memory that stays as it is until then.
    void copy_in(void* to, const void* from, std::size_t bytes, cudaStream_t in) const {
        if (bytes == 0) return;
        require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, in), "copy to the device");
        ++account.copies_in, account.bytes_in += bytes;
    }
    void copy_out(void* to, const void* from, std::size_t bytes, cudaStream_t in) const {
        if (bytes == 0) return;
        require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, in), "copy to the host");
        ++account.copies_out, account.bytes_out += bytes;
    }
    /// `m` passes when all that was put into the stream before has been done.
    void put(const mark& m, cudaStream_t in) const {
        require(cudaEventRecord(m.event(), in), "cudaEventRecord");
    }
    /// The stream goes on when `m` has passed; the host does not wait.
    void await(const mark& m, cudaStream_t in) const {
        require(cudaStreamWaitEvent(in, m.event(), 0), "cudaStreamWaitEvent");
    }
    /// The host waits until `m` has passed. Throws what went wrong on the device before.
    void wait_for(const mark& m) const {
        ++account.waits_for_marks;
        if (patience) return patience(m.event());
        require(cudaEventSynchronize(m.event()), "cudaEventSynchronize");
    }
    /// The host waits for everything. Throws what went wrong on the device.
    void wait() const {
        ++account.waits;
        if (patience) {
            put(*until_now_, work);
            patience(until_now_->event());
        }
        require(cudaStreamSynchronize(copies), "cudaStreamSynchronize");
        require(cudaStreamSynchronize(work), "cudaStreamSynchronize");
    }

private:
    std::optional<mark> until_now_; // in `work`
};

} // namespace kernels

using kernels::device_memory;
using kernels::device_name;
using kernels::device_queue;
using kernels::host_account;
using kernels::mark;
using kernels::pinned_memory;

} // namespace mpt
