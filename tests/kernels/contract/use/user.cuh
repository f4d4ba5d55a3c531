// SPDX-License-Identifier: MIT
// A program of somebody else: its own buffers and its own stream, nothing of mpt's but one copied
// header. User's words on purpose: CUDA's calls, checked.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

namespace user {

inline void ok(cudaError_t e) {
    if (e == cudaSuccess) return;
    std::printf("CUDA: %s\n", cudaGetErrorString(e));
    std::exit(1);
}

inline cudaStream_t stream() {
    static cudaStream_t s = [] {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
            std::printf("skipped: compiled, but there is no CUDA device to run it on\n");
            std::exit(77);
        }
        cudaStream_t made;
        ok(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
        return made;
    }();
    return s;
}

template <class T>
struct buffer { // n elements on the device
    T* p = nullptr;
    size_t n;
    explicit buffer(size_t count) : n(count) {
        stream();
        ok(cudaMalloc(&p, n * sizeof(T)));
        ok(cudaMemsetAsync(p, 0xFF, n * sizeof(T), stream()));
    }
    buffer(const std::vector<T>& host) : buffer(host.size()) {
        ok(cudaMemcpyAsync(p, host.data(), n * sizeof(T), cudaMemcpyHostToDevice, stream()));
        ok(cudaStreamSynchronize(stream()));
    }
    ~buffer() { cudaFree(p); }
    std::vector<T> host() const {
        std::vector<T> h(n);
        ok(cudaMemcpyAsync(h.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost, stream()));
        ok(cudaStreamSynchronize(stream()));
        return h;
    }
};

// What main returns: 0 where all of b is what was wanted, to `relative` of it.
template <class T>
int same(const buffer<T>& b, const std::vector<double>& wanted, double relative = 0) {
    const std::vector<T> found = b.host();
    int wrong = found.size() != wanted.size();
    for (size_t i = 0; i < found.size() && i < wanted.size(); ++i) {
        double f;
        if constexpr (std::is_same_v<T, double>) f = found[i];
        else f = double(float(found[i])); // __half, too
        if (f == wanted[i] || std::fabs(f - wanted[i]) <= relative * std::fabs(wanted[i])) continue;
        std::printf("element %zu is %.9g, wanted %.9g\n", i, f, wanted[i]);
        wrong = 1;
    }
    return wrong;
}

} // namespace user
