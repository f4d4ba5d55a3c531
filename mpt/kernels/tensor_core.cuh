// SPDX-License-Identifier: MIT
/// @file tensor_core.cuh
/// The words for tensor cores: which cards have them, tiles as a warp holds them. tier 3, needs:
/// kernels/launch.cuh
///
/// Idea     A tensor core multiplies small matrices in one instruction of a whole warp: 16x16x16 of
///          16-bit numbers, 16x16x8 of tf32, sums in fp32. A fragment is such a matrix in the
///          registers of the 32 threads; which thread holds what is the hardware's affair, so
///          fragments are loaded, multiplied and stored whole.
/// Breaks   an address that does not divide by 32 bytes or a pitch that does not by 16;
///          a fragment used by threads that have parted
/// Source   CUDA C++ Programming Guide, warp matrix functions
/// See      kernels/matmul_wmma.cuh
#pragma once
#include "mpt/kernels/launch.cuh" // __half, __nv_bfloat16, wmma

#include <type_traits>

namespace mpt::kernels {

/// Does the card that this is compiled for multiply T so? 7.0 and 7.5: __half alone; from 8.0 all
/// three (float as tf32). A kernel needs a plain way where not.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <class T>
inline constexpr bool has_tensor_cores = std::is_same_v<T, __half>;
#else
template <class T>
inline constexpr bool has_tensor_cores = true;
#endif

template <class T>
inline constexpr int fragment_depth = std::is_same_v<T, float> ? 8 : 16; // of k

template <class T>
struct fragment_element {
    using type = T;
};
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
template <>
struct fragment_element<float> {
    using type = wmma::precision::tf32;
};
__device__ inline float hardware_tf32(float x) { return wmma::__float_to_tf32(x); }
#else
__device__ inline float hardware_tf32(float x) { return x; } // never called
#endif

template <class Use, class T, bool Columns> // Columns: as it lies in memory, columns run on
using operand_fragment =
    wmma::fragment<Use, 16, 16, fragment_depth<T>, typename fragment_element<T>::type,
                   std::conditional_t<Columns, wmma::col_major, wmma::row_major>>;

/// A (16,k) of a matrix product; columns run on in memory if it lies transposed.
template <class T, bool Transposed>
using a_fragment = operand_fragment<wmma::matrix_a, T, Transposed>;
/// B (k,16).
template <class T, bool Transposed>
using b_fragment = operand_fragment<wmma::matrix_b, T, Transposed>;
/// C (16,16), in fp32.
template <class T>
using c_fragment = wmma::fragment<wmma::accumulator, 16, 16, fragment_depth<T>, float>;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// wmma::load_matrix_sync of bf16 and tf32 does not see that the address is in shared memory, and
// comes out as four loads a thread for every one (ldmatrix) that it is with __half. Said in PTX, it
// is one.
#define MPT_LOAD(what)                                                                            \
    asm volatile("wmma.load." what " {%0, %1, %2, %3}, [%4], %5;"                                 \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                             \
                 : "r"(unsigned(__cvta_generic_to_shared(from))), "r"(pitch)                      \
                 : "memory")
template <class Use, int K, class Element, class Layout, class T>
__device__ void load_said(wmma::fragment<Use, 16, 16, K, Element, Layout>& f, const T* from,
                          int pitch) {
    unsigned* const to = reinterpret_cast<unsigned*>(f.x);
    constexpr bool is_a = std::is_same_v<Use, wmma::matrix_a>;
    constexpr bool rows = std::is_same_v<Layout, wmma::row_major>;
    if constexpr (K == 16) {
        if constexpr (is_a && rows) MPT_LOAD("a.sync.aligned.row.m16n16k16.shared.bf16");
        if constexpr (is_a && !rows) MPT_LOAD("a.sync.aligned.col.m16n16k16.shared.bf16");
        if constexpr (!is_a && rows) MPT_LOAD("b.sync.aligned.row.m16n16k16.shared.bf16");
        if constexpr (!is_a && !rows) MPT_LOAD("b.sync.aligned.col.m16n16k16.shared.bf16");
    } else {
        if constexpr (is_a && rows) MPT_LOAD("a.sync.aligned.row.m16n16k8.shared.tf32");
        if constexpr (is_a && !rows) MPT_LOAD("a.sync.aligned.col.m16n16k8.shared.tf32");
        if constexpr (!is_a && rows) MPT_LOAD("b.sync.aligned.row.m16n16k8.shared.tf32");
        if constexpr (!is_a && !rows) MPT_LOAD("b.sync.aligned.col.m16n16k8.shared.tf32");
    }
}
#undef MPT_LOAD
#endif

/// Load an operand from shared memory; floats are rounded to tf32 as the hardware rounds, ties away
/// from zero.
template <class T, class Fragment>
__device__ void load_operand(Fragment& f, const T* from, int pitch) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (!std::is_same_v<T, __half>)
        load_said(f, from, pitch);
    else
#endif
        wmma::load_matrix_sync(f, from, unsigned(pitch));
    if constexpr (std::is_same_v<T, float>)
        for (int e = 0; e < f.num_elements; ++e) f.x[e] = hardware_tf32(f.x[e]);
}

} // namespace mpt::kernels
