// SPDX-License-Identifier: MIT
/// @file device_buffer.hpp
/// Memory of the device, in host code that is one source for both machines. tier 2, needs:
/// base/device_span.hpp base/error.hpp simt/runtime.hpp
///
/// Idea     A buffer owns what cudaMalloc gave and frees it with its scope. With MPT_SIMT the words
///          are the emulator's, which lie in this namespace, without it CUDA's own: the same file
///          serves nvcc, a host compiler beside CUDA, and the emulator. Its elements are reached by
///          copies and kernels alone.
/// Breaks   read() beside a stream that does not wait for stream 0: synchronise it first
/// See      runtime.hpp, tests/simt/memory_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/base/error.hpp"       // check, error, join
#if defined(MPT_SIMT)
#include "mpt/simt/runtime.hpp" // cudaMalloc, cudaFree, cudaMemcpy, cudaMemset, cudaError_t
#else
#include <cuda_runtime_api.h>
#endif

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace mpt::simt {

/// Throw what a word of the runtime says, unless all is well.
inline void require_cuda(cudaError_t e, const char* what) {
    if (e == cudaSuccess) return;
    cudaGetLastError(); // told here, so not to the next launch
    throw error(join(what, ": ", cudaGetErrorString(e)));
}

/// `size` elements of T, not initialised (the emulator's are NaN, -1).
template <class T>
class device_buffer {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    device_buffer() = default;
    explicit device_buffer(std::size_t size) : size_(size) {
        check(size <= std::numeric_limits<std::size_t>::max() / sizeof(T), "device_buffer: ", size,
              " elements of ", sizeof(T), " bytes; no machine has them");
        void* p = nullptr;
        if (size) require_cuda(cudaMalloc(&p, bytes()), "device_buffer");
        data_ = static_cast<T*>(p);
    }
    /// A copy of host memory.
    explicit device_buffer(const std::vector<T>& host) : device_buffer(host.size()) { write(host); }
    device_buffer(device_buffer&& other) noexcept { swap(other); }
    device_buffer& operator=(device_buffer&& other) noexcept {
        device_buffer(std::move(other)).swap(*this);
        return *this;
    }
    ~device_buffer() { cudaFree(data_); }

    T* data() const { return data_; } // for kernels only
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }
    device_span<T> span() const { return {data_, size_}; }

    /// From and to the host, all of it, done on return.
    void write(const std::vector<T>& host) {
        check(host.size() == size_, "device_buffer: ", host.size(), " elements for a buffer of ",
              size_, "; give as many");
        if (size_)
            require_cuda(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice), "write");
    }
    std::vector<T> read() const {
        std::vector<T> host(size_);
        if (size_)
            require_cuda(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost), "read");
        return host;
    }
    /// Every byte.
    void fill(int byte) {
        if (size_) require_cuda(cudaMemset(data_, byte, bytes()), "fill");
    }

private:
    void swap(device_buffer& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
    }

    T* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace mpt::simt

namespace mpt {
using simt::device_buffer;
}
