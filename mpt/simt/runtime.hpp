// SPDX-License-Identifier: MIT
/// @file runtime.hpp
/// The part of the CUDA runtime that host code needs.                      tier 2, needs:
/// base/error.hpp simt/device_memory.hpp simt/hooks.hpp
///
/// Idea     The same names and the same codes as CUDA's, so that host code is one source. All work
///          is done when it is asked for: a stream is always up to date, an event is the time of
///          its record. A copy is checked: device memory must be one living allocation, and each
///          end must be what the kind says. cudaGetErrorString(e) says what was wrong, where the
///          error came from this thread's last call.
/// Breaks   host code that reads device memory: nothing stops it here (a GPU does)
/// Source   CUDA Runtime API reference
/// See      device_memory.hpp, device_buffer.hpp, tests/simt/memory_test.cpp
#pragma once
#include "mpt/base/error.hpp"         // join
#include "mpt/simt/device_memory.hpp" // device_memory: allocate, release, holds, find
#include "mpt/simt/hooks.hpp"         // watch

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

namespace mpt::simt {

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidMemcpyDirection = 21,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
};
enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4, // what the addresses are
};

// ---- errors ----

struct runtime_error_state {
    cudaError_t last = cudaSuccess, told = cudaSuccess;
    std::string text; // of `told`
};
inline runtime_error_state& runtime_errors() {
    static thread_local runtime_error_state s;
    return s;
}
inline cudaError_t runtime_failure(cudaError_t e, std::string text) {
    runtime_errors() = {e, e, std::move(text)};
    return e;
}
inline cudaError_t cudaPeekAtLastError() { return runtime_errors().last; }
inline cudaError_t cudaGetLastError() {
    const cudaError_t e = runtime_errors().last;
    runtime_errors().last = cudaSuccess;
    return e;
}
inline const char* cudaGetErrorName(cudaError_t e) {
    switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    }
    return "unrecognized error code";
}
inline const char* cudaGetErrorString(cudaError_t e) {
    const runtime_error_state& s = runtime_errors();
    if (e == cudaSuccess) return "no error";
    return s.told == e ? s.text.c_str() : cudaGetErrorName(e);
}

// ---- memory ----

inline cudaError_t allocate_as(void** p, std::size_t bytes, memory_kind kind, const char* word) {
    if (!p) return runtime_failure(cudaErrorInvalidValue, join(word, ": a null pointer to fill"));
    *p = nullptr;
    if (bytes == 0) return cudaSuccess;
    *p = device_memory::here().allocate(bytes, kind);
    if (*p) return cudaSuccess;
    return runtime_failure(cudaErrorMemoryAllocation,
                           join("out of memory: ", word, " asks ", bytes, " bytes, ",
                                device_memory::here().held(kind), " are held"));
}
inline cudaError_t release_as(void* p, memory_kind kind, const char* word) {
    if (!p || device_memory::here().release(p, kind)) {
        watch::freed(p);
        return cudaSuccess;
    }
    return runtime_failure(cudaErrorInvalidValue,
                           join("invalid argument: ", word, ": ", p,
                                " is not the beginning of an allocation, or was freed before"));
}
template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
    void* got = nullptr;
    const cudaError_t e = allocate_as(p ? &got : nullptr, bytes, memory_kind::device, "cudaMalloc");
    if (p) *p = static_cast<T*>(got);
    return e;
}
/// Pinned memory: the host's, which kernels may also use.
template <class T>
cudaError_t cudaMallocHost(T** p, std::size_t bytes, unsigned = 0) {
    void* got = nullptr;
    const cudaError_t e =
        allocate_as(p ? &got : nullptr, bytes, memory_kind::pinned, "cudaMallocHost");
    if (p) *p = static_cast<T*>(got);
    return e;
}
inline cudaError_t cudaFree(void* p) { return release_as(p, memory_kind::device, "cudaFree"); }
inline cudaError_t cudaFreeHost(void* p) {
    return release_as(p, memory_kind::pinned, "cudaFreeHost");
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = device_memory::total;
    *free = device_memory::total - device_memory::here().held(memory_kind::device);
    return cudaSuccess;
}

// ---- streams and events ----

struct stream_state {
    bool capturing = false;
};
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

// ---- copies ----

/// What is wrong with one end of a copy or fill; empty: nothing.
inline std::string wrong_end(const void* p, std::size_t bytes, bool on_device, const char* end) {
    const allocation* a = device_memory::here().find(p);
    if (on_device) {
        if (!a) return join(end, " ", p, " is host memory, the kind says device");
        if (!device_memory::here().holds(p, bytes))
            return join(end, " ", p, ": ", bytes, " bytes pass the ", a->freed ? "freed " : "",
                        "allocation of ", a->bytes, " bytes");
    } else if (a && a->kind == memory_kind::device)
        return join(end, " ", p, " is device memory, the kind says host");
    else if (a && !device_memory::here().holds(p, bytes))
        return join(end, " ", p, ": ", bytes, " bytes pass the ", a->freed ? "freed " : "",
                    "pinned allocation of ", a->bytes, " bytes");
    else if (!p)
        return join(end, " is null");
    return {};
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                              cudaMemcpyKind kind) {
    if (bytes == 0) return cudaSuccess;
    if (kind < 0 || kind > cudaMemcpyDefault)
        return runtime_failure(cudaErrorInvalidMemcpyDirection,
                               join("invalid copy direction: ", int(kind)));
    const auto on_device = [](const void* p) { return device_memory::here().find(p) != nullptr; };
    const bool is_default = kind == cudaMemcpyDefault;
    const bool to_device = is_default ? on_device(to) : (kind & 1) != 0;
    const bool from_device = is_default ? on_device(from) : (kind & 2) != 0;
    std::string wrong = wrong_end(to, bytes, to_device, "the target");
    if (wrong.empty()) wrong = wrong_end(from, bytes, from_device, "the source");
    if (!wrong.empty())
        return runtime_failure(cudaErrorInvalidValue,
                               join("invalid argument: cudaMemcpy: ", wrong));
    std::memmove(to, from, bytes);
    watch::host_wrote(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t = nullptr) {
    return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
    if (bytes == 0) return cudaSuccess;
    const std::string wrong = wrong_end(p, bytes, true, "the target");
    if (!wrong.empty())
        return runtime_failure(cudaErrorInvalidValue,
                               join("invalid argument: cudaMemset: ", wrong));
    std::memset(p, value, bytes);
    watch::host_wrote(p, nullptr, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes,
                                   cudaStream_t = nullptr) {
    return cudaMemset(p, value, bytes);
}

// ---- the device ----

struct cudaDeviceProp {
    char name[256];
    std::size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, warpSize;
    int maxThreadsPerBlock, maxThreadsPerMultiProcessor, regsPerBlock;
    int maxThreadsDim[3], maxGridSize[3];
    int l2CacheSize, memoryBusWidth;
};
inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
    if (device == 0) return cudaSuccess;
    return runtime_failure(cudaErrorInvalidDevice,
                           join("invalid device ordinal: ", device, "; the emulator is device 0"));
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
    if (const cudaError_t e = cudaSetDevice(device)) return e;
    *p = {};
    std::snprintf(p->name, sizeof p->name, "mpt emulator");
    p->totalGlobalMem = device_memory::total;
    p->sharedMemPerBlock = 48 * 1024;
    p->sharedMemPerBlockOptin = 227 * 1024;
    p->major = 9;
    p->multiProcessorCount = 1;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->regsPerBlock = 65536;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    return cudaSuccess;
}

} // namespace mpt::simt
