// SPDX-License-Identifier: MIT
/// @file stream.hpp
/// Streams and events of a device that is never behind.                    tier 2, needs:
/// simt/runtime_errors.hpp
///
/// Idea     All work is done when it is asked for, so a stream is always up to date: waiting for
///          one is done at once. An event is the time of its record.
/// Breaks   nothing here that a missing synchronisation would break on a GPU: it does not show
/// Source   CUDA Runtime API reference, Stream Management, Event Management
/// See      runtime.hpp, tests/simt/memory_test.cpp
#pragma once
#include "mpt/simt/runtime_errors.hpp" // cudaError_t, runtime_failure

#include <chrono>

namespace mpt::simt {

struct stream_state {};
using cudaStream_t = stream_state*;
struct event_state {
    std::chrono::steady_clock::time_point at;
    bool recorded = false;
};
using cudaEvent_t = event_state*;

inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
    *s = new stream_state;
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
    delete s;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
    *e = new event_state;
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
    delete e;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t = nullptr) {
    e->at = std::chrono::steady_clock::now();
    e->recorded = true;
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
    if (!from->recorded || !to->recorded)
        return runtime_failure(cudaErrorInvalidResourceHandle,
                               "invalid resource handle: cudaEventElapsedTime of an event that "
                               "was not recorded");
    *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
    return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) {
    return cudaSuccess;
}

} // namespace mpt::simt
