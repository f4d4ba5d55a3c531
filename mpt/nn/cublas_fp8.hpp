// SPDX-License-Identifier: MIT
/// @file cublas_fp8.hpp
/// A matrix product of fp8 operands with a scale each, by NVIDIA's library. tier 4, needs:
/// base/error.hpp nn/cublas_product.hpp numeric/fp8.hpp
///
/// Idea     Twice the rate of 16 bits, for numbers of 8: e4m3 for weights and activations, e5m2 for
///          gradients. Their range is small, so each tensor comes with one scale, chosen by its
///          largest number; the library multiplies the sums by both. It is one operation: training
///          in fp8 also needs a choice of scales from step to step, which no list has yet.
/// Formula  c(m,n) = round( a_scale b_scale sum over k of a(m,k) b(n,k) ),  number = scale x code
/// Costs    operands of 1 byte; tensor cores keep some 13 bits of the sums of 32 products, and add
///          those sums in fp32 (fast accumulation, which does not, stays off)
/// Breaks   e5m2 with e5m2, sizes that are no multiples of 16, arrays that do not lie on 16 bytes,
///          operands whose rows do not run along k: the cards' kernels have none of these
/// Source   Micikevicius et al. 2022, FP8 Formats for Deep Learning, arXiv:2209.05433; cuBLAS
///          documentation, cublasLtMatmul, narrow precision
/// See      numeric/fp8.hpp, tests/nn/cublas_fp8_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // check
#include "mpt/nn/cublas_product.hpp" // cublas, product_kind, device_capability
#include "mpt/numeric/fp8.hpp"       // e4m3, e5m2

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifdef MPT_HAS_CUBLAS
namespace mpt {

/// A, B: e4m3 or e5m2. T: float, __half or __nv_bfloat16.
template <class A, class B, class T>
struct fp8_product_args {
    T* c = nullptr;                 // (m,n)
    const A* a = nullptr;           // (m,k): an activation x, or a gradient dy
    const B* b = nullptr;           // (n,k): weights as PyTorch keeps them
    const float* a_scale = nullptr; // one number each, on the device
    const float* b_scale = nullptr;
    int m = 0, n = 0, k = 0;        // multiples of 16
};

template <class X>
inline constexpr cudaDataType_t fp8_type =
    std::is_same_v<X, e4m3> ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;

/// Throws where this card has no fp8.
inline void check_fp8() {
    const int found = device_capability();
    check(found >= 89, "fp8: this card has capability ", found / 10, ".", found % 10,
          ", wanted 8.9 or newer (Ada, Hopper, Blackwell); multiply in bf16");
}

/// The product is in the stream when this returns. workspace: as of cublas::product().
template <class A, class B, class T>
void fp8_product(cublas& blas, const fp8_product_args<A, B, T>& x, void* workspace,
                 std::size_t bytes, cudaStream_t s) {
    static_assert(std::is_same_v<A, e4m3> || std::is_same_v<A, e5m2>, "a: e4m3 or e5m2");
    static_assert(std::is_same_v<B, e4m3> || std::is_same_v<B, e5m2>, "b: e4m3 or e5m2");
    static_assert(std::is_same_v<A, e4m3> || std::is_same_v<B, e4m3>, "no e5m2 with e5m2");
    check_fp8();
    check(x.m % 16 == 0 && x.n % 16 == 0 && x.k % 16 == 0, "fp8: a product ", x.m, " x ", x.n,
          " x ", x.k, "; wanted are multiples of 16: pad with zeros");
    const auto on_16 = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
    check(on_16(x.a) && on_16(x.b) && on_16(x.c),
          "fp8: an array does not lie on 16 bytes, as its kernels want; allocate it by itself");
    check(x.a_scale && x.b_scale, "fp8: an operand without its scale; give one number for each");
    product_kind kind{fp8_type<A>, fp8_type<B>, blas_type<T>, x.m, x.n, x.k, x.k, x.k, x.n};
    kind.b_transposed = kind.scaled = true;
    check(blas.product(kind, {x.c, x.a, x.b, nullptr, x.a_scale, x.b_scale}, workspace, bytes, s),
          "fp8: cuBLASLt has no kernel for ", x.m, " x ", x.n, " x ", x.k, "; multiply in bf16");
}

} // namespace mpt
#endif
