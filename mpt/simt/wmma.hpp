// SPDX-License-Identifier: MIT
/// @file wmma.hpp
/// nvcuda::wmma: matrices of 16 by 16 that a warp holds and multiplies.    tier 2, needs:
/// base/error.hpp simt/block.hpp simt/half.hpp simt/hooks.hpp
///
/// Idea     A fragment is a matrix in the registers of 32 lanes; here lane l holds elements 8 l to
///          8 l + 7 of a 16 x 16 one, row by row (hardware has orders of its own, so a kernel may
///          apply one operation to every x[i] and no more). All 32 lanes must come to each word: a
///          product is worked out once, by the last to come.
///              a (16,K) b (K,16) c (16,16): fp16 and bf16 with K = 16, tf32 with K = 8; c in fp32
/// Formula  d = c + a b, products exact, sums in fp32 along k, each rounded to nearest
/// Breaks   hardware adds in another order and cuts off bits: compare with a tolerance;
///          a float that was not made tf32 (__float_to_tf32) loses its low 13 bits, as there
/// Source   CUDA C++ Programming Guide, Warp Matrix Functions
/// See      kernels/tensor_core.cuh, tests/simt/arithmetic_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check, join, error
#include "mpt/simt/block.hpp" // block: meet, name
#include "mpt/simt/half.hpp"  // __half, __nv_bfloat16
#include "mpt/simt/hooks.hpp" // place, in_kernel

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mpt::simt::nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

/// The nearest tf32 (10 bits of mantissa), ties away from zero, as the hardware converts.
inline float __float_to_tf32(float x) {
    std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
    if ((bits & 0x7F800000) != 0x7F800000) bits += 0x1000;
    return __builtin_bit_cast(float, bits & 0xFFFFE000);
}

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    static constexpr bool is_a = std::is_same_v<Use, matrix_a>;
    static constexpr bool is_b = std::is_same_v<Use, matrix_b>;
    static constexpr bool is_tf32 = std::is_same_v<T, precision::tf32>;
    static_assert(M == 16 && N == 16 && (K == 16 || K == 8),
                  "wmma: 16 x 16 x 16, or 16 x 16 x 8 of tf32");
    static_assert(is_a || is_b ? K == (is_tf32 ? 8 : 16) : std::is_same_v<T, float>,
                  "wmma: tf32 with K = 8, fp16 and bf16 with K = 16, sums in fp32");
    static constexpr int rows = is_b ? K : M, columns = is_a ? K : N;
    static constexpr int num_elements = rows * columns / 32; // of each lane
    using element_type = T;
    using storage_element_type = std::conditional_t<is_tf32, float, T>;
    storage_element_type x[num_elements];
};

// What the lanes bring: they must all mean the same matrix.
struct tile {
    const volatile void* at;
    unsigned pitch;
};
MPT_SIMT_QUIET inline void require_all(unsigned lanes, const char* word) {
    check(lanes == 0xFFFFFFFF, block::here().name(), ": Barrier error detected. Divergent ",
          "thread(s) in warp: ", word, " is a word of all 32 lanes, these are 0x", std::hex, lanes);
}
[[noreturn]] MPT_SIMT_QUIET inline void misplaced(const void* p, unsigned pitch, std::size_t size,
                                                  const char* word, place at) {
    in_kernel = false;
    throw error(join(block::here().name(), ", ", to_text(at), ": ", word, ": address ", p,
                     ", pitch ", pitch, " of ", size,
                     " bytes; the address is to divide by 32 bytes, the pitch by 16"));
}
template <class T>
MPT_SIMT_QUIET void meet_at(const T* p, unsigned pitch, const char* word, place at) {
    if (reinterpret_cast<std::uintptr_t>(p) % 32 != 0 || pitch * sizeof(T) % 16 != 0)
        misplaced(p, pitch, sizeof(T), word, at);
    tile mine{p, pitch};
    const meeting alike = [](void* const* brought, unsigned lanes) {
        require_all(lanes, "a matrix");
        const auto& first = *static_cast<const tile*>(brought[0]);
        for (int lane = 1; lane < 32; ++lane) {
            const auto& other = *static_cast<const tile*>(brought[lane]);
            check(other.at == first.at && other.pitch == first.pitch, block::here().name(),
                  ": wmma: lane ", lane, " names another matrix than lane 0; all name one");
        }
    };
    block::here().meet(0xFFFFFFFF, &mine, alike, word, at);
}

// Where element i of this lane lies in memory.
template <class Fragment>
std::size_t element_at(int i, unsigned pitch, bool by_columns) {
    const unsigned e = block::here().lane() * unsigned(Fragment::num_elements) + unsigned(i);
    const unsigned row = e / unsigned(Fragment::columns), column = e % unsigned(Fragment::columns);
    return by_columns ? std::size_t(column) * pitch + row : std::size_t(row) * pitch + column;
}

/// The matrix at `p`, whose rows (columns, of a col_major one) are `pitch` elements apart.
template <class Use, int M, int N, int K, class T, class Layout>
MPT_SIMT_APART void
load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f,
                 const typename fragment<Use, M, N, K, T, Layout>::storage_element_type* p,
                 unsigned pitch, place at = place::here()) {
    static_assert(!std::is_void_v<Layout>, "wmma: sums are loaded with a layout");
    meet_at(p, pitch, "load_matrix_sync", at);
    using F = fragment<Use, M, N, K, T, Layout>;
    for (int i = 0; i < F::num_elements; ++i)
        f.x[i] = p[element_at<F>(i, pitch, std::is_same_v<Layout, col_major>)];
}
template <int M, int N, int K>
MPT_SIMT_APART void load_matrix_sync(fragment<accumulator, M, N, K, float>& f, const float* p,
                                     unsigned pitch, layout_t layout, place at = place::here()) {
    meet_at(p, pitch, "load_matrix_sync", at);
    using F = fragment<accumulator, M, N, K, float>;
    for (int i = 0; i < F::num_elements; ++i)
        f.x[i] = p[element_at<F>(i, pitch, layout == mem_col_major)];
}
template <int M, int N, int K>
MPT_SIMT_APART void store_matrix_sync(float* p, const fragment<accumulator, M, N, K, float>& f,
                                      unsigned pitch, layout_t layout, place at = place::here()) {
    meet_at(p, pitch, "store_matrix_sync", at);
    using F = fragment<accumulator, M, N, K, float>;
    for (int i = 0; i < F::num_elements; ++i)
        p[element_at<F>(i, pitch, layout == mem_col_major)] = f.x[i];
}
template <class Use, int M, int N, int K, class T, class Layout>
void fill_fragment(fragment<Use, M, N, K, T, Layout>& f,
                   typename fragment<Use, M, N, K, T, Layout>::storage_element_type value) {
    for (auto& x : f.x) x = value;
}

/// The number that a tensor core sees.
inline float seen(float x) { // as tf32
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0xFFFFE000);
}
inline float seen(__half x) { return float(x); }
inline float seen(__nv_bfloat16 x) { return float(x); }

template <class A, class B, class C>
struct factors { // of one lane
    C* d;
    const A* a;
    const B* b;
    const C* c;
};

/// d = a b + c.
template <int M, int N, int K, class T, class LayoutA, class LayoutB>
MPT_SIMT_QUIET void
mma_sync(fragment<accumulator, M, N, K, float>& d, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
         const fragment<matrix_b, M, N, K, T, LayoutB>& b,
         const fragment<accumulator, M, N, K, float>& c, place at = place::here()) {
    using A = fragment<matrix_a, M, N, K, T, LayoutA>;
    using B = fragment<matrix_b, M, N, K, T, LayoutB>;
    using C = fragment<accumulator, M, N, K, float>;
    using brings = factors<A, B, C>;
    brings mine{&d, &a, &b, &c};
    const meeting multiply = [](void* const* brought, unsigned lanes) {
        require_all(lanes, "mma_sync");
        float left[M * K], right[K * N], sum[M * N]; // row by row
        for (int lane = 0; lane < 32; ++lane) {
            const auto& from = *static_cast<const brings*>(brought[lane]);
            for (int i = 0; i < A::num_elements; ++i)
                left[lane * A::num_elements + i] = seen(from.a->x[i]);
            for (int i = 0; i < B::num_elements; ++i)
                right[lane * B::num_elements + i] = seen(from.b->x[i]);
            for (int i = 0; i < C::num_elements; ++i)
                sum[lane * C::num_elements + i] = from.c->x[i];
        }
        for (int m = 0; m < M; ++m)
            for (int k = 0; k < K; ++k)
                for (int n = 0; n < N; ++n) sum[m * N + n] += left[m * K + k] * right[k * N + n];
        for (int lane = 0; lane < 32; ++lane)
            std::memcpy(static_cast<const brings*>(brought[lane])->d->x,
                        sum + lane * C::num_elements, sizeof(C::x));
    };
    block::here().meet(0xFFFFFFFF, &mine, multiply, "mma_sync", at);
}

} // namespace mpt::simt::nvcuda::wmma
