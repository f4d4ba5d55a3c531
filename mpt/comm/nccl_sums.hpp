// SPDX-License-Identifier: MIT
/// @file nccl_sums.hpp
/// The kernels by which ranks on GPUs sum in rank order, handed in.        tier 2, needs:
/// comm/traffic.hpp
///
/// Idea     A kernel is of a higher tier than comm/, and compiled by nvcc alone. So a program that
///          wants the bits of threads gives the four launchers of kernels/rank_order_sum.cuh.
/// Breaks   types of CUDA's that are not those of numeric/: same bits, other names
/// See      nccl.hpp, kernels/rank_order_sum.cuh, tests/comm/nccl_test.cpp
#pragma once
#include "mpt/comm/traffic.hpp" // element, element_code

#include <cstddef>

#ifdef MPT_HAS_NCCL
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace mpt {

template <>
struct element_code<__half> {
    static constexpr element value = element::fp16;
};
template <>
struct element_code<__nv_bfloat16> {
    static constexpr element value = element::bf16;
};

struct rank_order_sums {
    template <class T>
    using sum = void (*)(const T* own, int rank, const T* others, std::size_t stride, int ranks,
                         T* out, std::size_t n, cudaStream_t stream);
    sum<float> fp32 = nullptr; // none: NCCL's own sums
    sum<double> fp64 = nullptr;
    sum<__half> fp16 = nullptr;
    sum<__nv_bfloat16> bf16 = nullptr;

    explicit operator bool() const { return fp32; }

    /// out (n) = own (n), of rank `rank`, and the other rows of others (ranks, stride), in order.
    void operator()(element e, const void* own, int rank, const void* others, std::size_t stride,
                    int ranks, void* out, std::size_t n, cudaStream_t stream) const {
        const auto by = [&]<class T>(sum<T> f) {
            f(static_cast<const T*>(own), rank, static_cast<const T*>(others), stride, ranks,
              static_cast<T*>(out), n, stream);
        };
        if (e == element::fp32) by(fp32);
        if (e == element::fp64) by(fp64);
        if (e == element::fp16) by(fp16);
        if (e == element::bf16) by(bf16);
    }
};

} // namespace mpt
#endif
