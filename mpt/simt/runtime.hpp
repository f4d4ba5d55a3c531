// SPDX-License-Identifier: MIT
/// @file runtime.hpp
/// The part of the CUDA runtime that host code needs.                      tier 2, needs:
/// base/error.hpp simt/device_memory.hpp simt/device_properties.hpp simt/hooks.hpp
/// simt/runtime_errors.hpp simt/stream.hpp
///
/// Idea     The same names and the same codes as CUDA's, so that host code is one source. A copy is
///          checked: device memory must be one living allocation, and each end must be what the
///          kind says. cudaGetErrorString(e) says what was wrong, where the error came from this
///          thread's last call.
/// Breaks   host code that reads device memory: nothing stops it here (a GPU does)
/// Source   CUDA Runtime API reference
/// See      device_memory.hpp, device_buffer.hpp, tests/simt/memory_test.cpp
#pragma once
#include "mpt/base/error.hpp"             // join
#include "mpt/simt/device_memory.hpp"     // device_memory: allocate, release, holds, find
#include "mpt/simt/device_properties.hpp" // cudaDeviceProp, cudaGetDeviceCount, ...
#include "mpt/simt/hooks.hpp"             // watch
#include "mpt/simt/runtime_errors.hpp"    // cudaError_t, runtime_failure, ...
#include "mpt/simt/stream.hpp"            // cudaStream_t, cudaEvent_t, ...

#include <cstddef>
#include <cstring>
#include <string>

namespace mpt::simt {

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

// ---- copies ----

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4, // what the addresses are
};

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
    if ((value & 0xFF) == 0xFF)
        watch::poisoned(p, bytes); // as a fresh allocation is: not to be read
    else
        watch::host_wrote(p, nullptr, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes,
                                   cudaStream_t = nullptr) {
    return cudaMemset(p, value, bytes);
}

} // namespace mpt::simt
