// SPDX-License-Identifier: MIT
// device.hpp -- the machine that a chapter's kernels run on. Compiled by nvcc: a GPU, where work is
// timed. Compiled by g++ or clang++: the emulator, where every access is checked and counted.
#pragma once
#include "mpt/base/error.hpp"     // check, join
#include "mpt/base/philox.hpp"    // philox
#include "mpt/kernels/launch.cuh" // launch, cudaMalloc, ...
#include "mpt/simt/occupancy.hpp" // occupancy_of, multiprocessor_of

#if defined(__CUDACC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses" // nvcc's own, around pointers to members
#include "mpt/simt/counts.hpp"                 // access_counts
#pragma GCC diagnostic pop
#else
#include "mpt/simt/counting.hpp" // counting, access_counts
#endif

#include <algorithm>
#include <string>
#include <vector>

using namespace mpt::kernels; // CUDA's words on the emulator

#if defined(__CUDACC__)
inline constexpr bool on_gpu = true;
#else
inline constexpr bool on_gpu = false;
#endif

inline void ok(cudaError_t e, const char* what) {
    mpt::check(e == cudaSuccess, what, ": ", cudaGetErrorString(e));
}

// Its name. Throws one line where there is none.
inline std::string device_name() {
    int devices = 0;
    const cudaError_t e = cudaGetDeviceCount(&devices);
    mpt::check(e == cudaSuccess && devices > 0, "no GPU here (", cudaGetErrorString(e),
               "); the emulator needs none: leave out --device cuda");
    cudaDeviceProp p;
    ok(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
    return on_gpu ? mpt::join(p.name, ", ", p.major, ".", p.minor) : "emulator";
}

// n numbers in the device's memory; not written, as cudaMalloc leaves them, or those of a vector.
template <class T>
class array {
public:
    explicit array(std::size_t n) : n_(n) { ok(cudaMalloc(&at_, n * sizeof(T)), "cudaMalloc"); }
    explicit array(const std::vector<T>& v) : array(v.size()) {
        ok(cudaMemcpy(at_, v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "to the device");
    }
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() { cudaFree(at_); }

    T* data() const { return at_; }
    std::size_t size() const { return n_; }
    std::vector<T> read() const { // after all kernels
        std::vector<T> v(n_);
        ok(cudaMemcpy(v.data(), at_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "to the host");
        return v;
    }

private:
    T* at_ = nullptr;
    std::size_t n_;
};

// Whole numbers from -8 to 8, whose sums are exact in any order, or any numbers from -2 to 2.
inline std::vector<float> random_numbers(std::size_t n, bool whole) {
    std::vector<float> v(n);
    for (std::size_t i = 0; i < n; ++i) {
        const mpt::philox4 r = mpt::philox({{std::uint32_t(i), 0, 0, 0}}, 1, 2);
        v[i] = whole ? float(r.x[0] % 17) - 8 : float(r.x[0] >> 8) * 0x1p-22f - 2;
    }
    return v;
}

// In which order blocks, warps and lanes run; 0: ascending. A GPU is not asked.
inline void set_order([[maybe_unused]] unsigned seed) {
#if !defined(__CUDACC__)
    mpt::simt::settings().order_seed = seed;
#endif
}

// On a GPU: does occupancy_of say what the driver says of blocks of so many threads of this kernel?
template <auto Kernel>
bool driver_agrees([[maybe_unused]] int threads) {
#if defined(__CUDACC__)
    cudaFuncAttributes needs;
    cudaDeviceProp p;
    int blocks = 0;
    ok(cudaFuncGetAttributes(&needs, Kernel), "cudaFuncGetAttributes");
    ok(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
    ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Kernel, threads, 0), "occupancy");
    return mpt::simt::occupancy_of(mpt::simt::multiprocessor_of(p.major * 10 + p.minor),
                                   {threads, needs.numRegs, needs.sharedSizeBytes})
               .blocks == blocks;
#else
    return true;
#endif
}

//! [costs]
// What some launches cost: on the emulator counted, on a GPU timed.
struct costs : mpt::simt::access_counts {
    double seconds = 0;
};
template <class Work>
costs cost_of(Work work) {
    costs c;
#if defined(__CUDACC__)
    cudaEvent_t from, to;
    ok(cudaEventCreate(&from), "cudaEventCreate"), ok(cudaEventCreate(&to), "cudaEventCreate");
    c.seconds = 1e30;
    for (int run = 0; run < 10; ++run) { // the fastest: the first ones load the code
        cudaEventRecord(from);
        work();
        cudaEventRecord(to);
        ok(cudaEventSynchronize(to), "a kernel");
        float ms = 0;
        ok(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
        c.seconds = std::min(c.seconds, ms * 1e-3);
    }
    cudaEventDestroy(from), cudaEventDestroy(to);
#else
    mpt::simt::counting counting;
    work();
    static_cast<mpt::simt::access_counts&>(c) = counting.totals();
#endif
    return c;
}
//! [costs]
