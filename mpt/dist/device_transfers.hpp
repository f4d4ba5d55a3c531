// SPDX-License-Identifier: MIT
/// @file device_transfers.hpp
/// transfers.hpp with a GPU, or its emulator.                              tier 6, needs:
/// dist/transfers.hpp kernels/device.cuh kernels/launch.cuh nn/device.hpp
///
/// Idea     A stream for these copies alone. Whoever starts a job leaves a mark in the stream of
///          kernels, and the copies' stream waits for it: a gradient that a kernel is still writing
///          is not copied before. The thread of transfers waits for its copies, kernels do not.
///          From pinned memory (pinned_memory() as the source of a memory's host) they overlap.
/// Breaks   copies in a stream that does not wait for the kernels: right on some days
/// See      transfers.hpp, tests/dist/offload_device_test.cpp
#pragma once
#include "mpt/dist/transfers.hpp" // transfer_calls
#include "mpt/kernels/device.cuh" // require
#include "mpt/kernels/launch.cuh" // cudaStream_t, cudaMemcpyAsync
#include "mpt/nn/device.hpp"      // device_queue, mark

#include <cstddef>
#include <memory>

namespace mpt {
namespace kernels {

/// How bytes move between host and device while kernels run in queue.work. The queue outlives
/// what it returns.
inline transfer_calls device_transfers(const device_queue& queue) {
    struct lane_of_copies {
        lane_of_copies() { require(cudaStreamCreate(&stream), "cudaStreamCreate"); }
        ~lane_of_copies() { cudaStreamDestroy(stream); }
        lane_of_copies(const lane_of_copies&) = delete;
        lane_of_copies& operator=(const lane_of_copies&) = delete;

        void copy(void* to, const void* from, std::size_t n, cudaMemcpyKind way) const {
            require(cudaMemcpyAsync(to, from, n, way, stream), "cudaMemcpyAsync");
            require(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        }
        cudaStream_t stream = nullptr;
        mark kernels_until_now;
    };
    const auto lane = std::make_shared<lane_of_copies>();
    transfer_calls calls;
    calls.in = [lane](void* to, const void* from, std::size_t n) {
        lane->copy(to, from, n, cudaMemcpyHostToDevice);
    };
    calls.out = [lane](void* to, const void* from, std::size_t n) {
        lane->copy(to, from, n, cudaMemcpyDeviceToHost);
    };
    calls.before = [lane, &queue] {
        queue.put(lane->kernels_until_now, queue.work);
        queue.await(lane->kernels_until_now, lane->stream);
    };
    return calls;
}

} // namespace kernels

using kernels::device_transfers;

} // namespace mpt
