// SPDX-License-Identifier: MIT
// device.cuh -- what the rows of a GPU share: its arrays, its clock, its library of products, and
// the copy that is the limit.
#pragma once
#include "../common.hpp"
#include "look.hpp" // look, alike

#include "mpt/kernels/device.cuh"      // require, device_missing, device_name
#include "mpt/kernels/elementwise.cuh" // over_elements, for_my_elements
#include "mpt/kernels/matmul.cuh"      // matmul_args, with_leading
#include "mpt/kernels/scalar.cuh"      // to_float, from_float

#include <cublas_v2.h>

#include <type_traits>

namespace bench {

using mpt::launch;
using mpt::kernels::require;

inline void require_blas(cublasStatus_t s, const char* call) {
    mpt::check(s == CUBLAS_STATUS_SUCCESS, "cuBLAS: ", call, ": ", cublasGetStatusString(s));
}

template <class T>
__global__ void numbers_kernel(T* x, size_t n, float low, float high) {
    mpt::kernels::for_my_elements<1>(n, [=](size_t i, auto) {
        unsigned h = unsigned(i) * 2654435761u; // a hash of i
        h = (h ^ (h >> 15)) * 2246822519u;
        h ^= h >> 13;
        x[i] = mpt::kernels::from_float<T>(low + (high - low) * (float(h >> 8) * 0x1p-24f));
    });
}

/// n elements of the device's memory, freed at the end.
template <class T>
class array {
public:
    explicit array(size_t n) : n_(n) { require(cudaMalloc(&x_, n * sizeof(T)), "cudaMalloc"); }
    /// With numbers between low and high.
    array(size_t n, float low, float high) : array(n) { set(low, high); }
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() { cudaFree(x_); }

    void set(float low, float high) {
        launch<numbers_kernel<T>>(mpt::kernels::over_elements(n_, 1, nullptr), x_, n_, low, high);
    }
    void set_bytes(int byte) { require(cudaMemset(x_, byte, n_ * sizeof(T)), "cudaMemset"); }
    T* data() { return x_; }
    size_t size() const { return n_; }

    /// The first `count` (0: all) on the host, as numbers. Waits for the device.
    std::vector<float> host(size_t count = 0) const {
        if (count == 0 || count > n_) count = n_;
        std::vector<T> raw(count);
        require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        require(cudaMemcpy(raw.data(), x_, count * sizeof(T), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
        std::vector<float> y(count);
        for (size_t i = 0; i < count; ++i) y[i] = float(raw[i]);
        return y;
    }

private:
    T* x_ = nullptr;
    size_t n_;
};

class gpu {
public:
    gpu() {
        require(cudaStreamCreateWithFlags(&stream, cudaStreamDefault), "cudaStreamCreate");
        require(cudaEventCreate(&start_), "cudaEventCreate");
        require(cudaEventCreate(&stop_), "cudaEventCreate");
        require_blas(cublasCreate(&blas), "cublasCreate");
        require_blas(cublasSetStream(blas, stream), "cublasSetStream");
    }
    gpu(const gpu&) = delete;
    gpu& operator=(const gpu&) = delete;
    ~gpu() {
        cublasDestroy(blas);
        cudaEventDestroy(stop_);
        cudaEventDestroy(start_);
        cudaStreamDestroy(stream);
    }

    cudaStream_t stream = nullptr;
    cublasHandle_t blas = nullptr;

    /// Seconds between two events of the stream, `times` runs between them.
    double seconds(const side& s, int times) const {
        require(cudaEventRecord(start_, stream), "cudaEventRecord");
        for (int i = 0; i < times; ++i) s.run();
        require(cudaEventRecord(stop_, stream), "cudaEventRecord");
        require(cudaEventSynchronize(stop_), "cudaEventSynchronize");
        float ms = 0;
        require(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
        return 1e-3 * double(ms);
    }

private:
    cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

/// The limit: a copy from device to device that moves as many bytes, half of them read, half
/// written. Rows that move less than its arrays hold copy a part of them.
class device_copy {
public:
    device_copy(const gpu& g, size_t most) : g_(g), from_(most / 2 + 1), to_(most / 2 + 1) {
        from_.set_bytes(1);
    }
    side of(double bytes) {
        const size_t half = size_t(bytes / 2);
        mpt::check(half <= from_.size(), "copy: ", half, " bytes of ", from_.size());
        return {"device copy", 1e-9 * 2 * double(half), [this, half] {
                    require(cudaMemcpyAsync(to_.data(), from_.data(), half,
                                            cudaMemcpyDeviceToDevice, g_.stream),
                            "cudaMemcpyAsync");
                }};
    }

private:
    const gpu& g_;
    array<unsigned char> from_, to_;
};

// ---- products by cuBLAS ----

template <class T>
constexpr cudaDataType_t blas_type = std::is_same_v<T, float>    ? CUDA_R_32F
                                     : std::is_same_v<T, __half> ? CUDA_R_16F
                                                                 : CUDA_R_16BF;

/// What kernels/matmul.cuh computes, `batch` times, matrices one behind the other. cuBLAS counts
/// columns first: row by row it sees c^T = b^T a^T.
template <class T>
void blas_matmul(const gpu& g, mpt::kernels::matmul_args<T> x, int batch = 1, float alpha = 1) {
    x = mpt::kernels::with_leading(x);
    const float beta = x.accumulate ? 1.0f : 0.0f;
    const auto each = [](int rows, int columns) { return (long long)rows * columns; };
    require_blas(
        cublasGemmStridedBatchedEx(
            g.blas, x.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
            x.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, x.n, x.m, x.k, &alpha, x.b, blas_type<T>,
            x.ldb, each(x.k, x.n), x.a, blas_type<T>, x.lda, each(x.m, x.k), &beta, x.c,
            blas_type<T>, x.ldc, each(x.m, x.n), batch,
            x.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

} // namespace bench
