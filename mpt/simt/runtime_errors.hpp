// SPDX-License-Identifier: MIT
/// @file runtime_errors.hpp
/// The codes of the CUDA runtime, and what was meant by the last one.      tier 2, needs: std only
///
/// Idea     CUDA's functions return a code; the code says little. Here the thread's last error also
///          keeps a line of text, and cudaGetErrorString() of its code gives that line.
/// Breaks   an error that nobody asks for: cudaGetLastError() tells it to somebody else, later
/// Source   CUDA Runtime API reference, Error Handling
/// See      runtime.hpp, tests/simt/memory_test.cpp
#pragma once
#include <string>
#include <utility>

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

} // namespace mpt::simt
