// SPDX-License-Identifier: MIT
// cublas_product.hpp -- on a GPU: the same product by NVIDIA's library, to be measured against.
#pragma once
#include "device.hpp" // costs, cost_of, ok

#include "mpt/kernels/matmul.cuh" // matmul_args

#include <type_traits>

#if defined(__CUDACC__)
#include <cublas_v2.h>

// c = a b, sums in fp32. cuBLAS counts by columns: it is asked for c^T = b^T a^T.
template <class T>
void cublas_product(const mpt::kernels::matmul_args<T>& x) {
    static const cublasHandle_t cublas = [] {
        cublasHandle_t h = nullptr;
        mpt::check(cublasCreate(&h) == CUBLAS_STATUS_SUCCESS, "cublasCreate failed");
        return h;
    }();
    const cudaDataType_t type = std::is_same_v<T, float>    ? CUDA_R_32F
                                : std::is_same_v<T, __half> ? CUDA_R_16F
                                                            : CUDA_R_16BF;
    const float one = 1, zero = 0;
    const cublasStatus_t status = cublasGemmEx(
        cublas, CUBLAS_OP_N, CUBLAS_OP_N, x.n, x.m, x.k, &one, x.b, type, x.n, x.a, type, x.k,
        &zero, x.c, type, x.n, x.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT);
    mpt::check(status == CUBLAS_STATUS_SUCCESS, "cublasGemmEx: ", cublasGetStatusString(status));
}
#endif

// Seconds of it; 0 on the emulator.
template <class T>
double cublas_seconds([[maybe_unused]] const mpt::kernels::matmul_args<T>& x) {
#if defined(__CUDACC__)
    return cost_of([&] { cublas_product(x); }).seconds;
#else
    return 0;
#endif
}
