// SPDX-License-Identifier: MIT
/// @file scalar.cuh
/// Numbers in memory and numbers in arithmetic; 16 bytes at a time.        tier 3, needs:
/// kernels/launch.cuh
///
/// Idea     Arrays hold T (float, __half, __nv_bfloat16), kernels compute in float and round once,
///          when they store. A thread that moves 16 bytes by one instruction needs a quarter of the
///          instructions of one that moves 4, and keeps more bytes under way. An address must then
///          be a multiple of 16 bytes; where one is not, the same kernel runs with packs of 1.
/// Formula  pack<T, n> = n neighbours;  n = 16 / size of the widest type that a kernel touches
/// Breaks   a pack at an address that is no multiple of its size: the GPU stops the kernel
/// See      elementwise.cuh and cast.cuh (the plainest users), tests/kernels/cast_test.cpp
#pragma once
#include "mpt/kernels/launch.cuh" // __device__, __half, __nv_bfloat16

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mpt::kernels {

constexpr float infinity = HUGE_VALF;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

/// Rounded once, to nearest and ties to even; past the largest number infinity. NaN stays NaN.
template <class T>
__device__ inline T from_float(float x) {
    if constexpr (std::is_same_v<T, float>)
        return x;
    else if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(x);
    else
        return __float2bfloat16_rn(x);
}

/// No infinity and no NaN: not all bits of the exponent are set.
__device__ inline bool is_finite(float x) {
    return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

/// n neighbours, loaded and stored by as few instructions as there are.
template <class T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) pack {
    T x[n];
};
template <int n, class T>
__device__ inline pack<T, n> load(const T* at) {
    return *reinterpret_cast<const pack<T, n>*>(at);
}
template <class T, int n>
__device__ inline void store(T* at, const pack<T, n>& p) {
    *reinterpret_cast<pack<T, n>*>(at) = p;
}

/// Elements of a pack in a kernel whose widest type has so many bytes.
__host__ __device__ constexpr int pack_width(size_t widest) { return int(16 / widest); }

/// May packs of n be loaded and stored at all these addresses? (Null is never touched.)
template <int n, class... T>
bool fit(const T*... at) {
    return ((reinterpret_cast<std::uintptr_t>(at) % alignof(pack<T, n>) == 0) && ...);
}

/// Blocks for n pieces of work, `each` of them a block; a grid's x goes up to 2^31 - 1, and kernels
/// go on in steps of the grid where that is not enough.
inline unsigned blocks_for(size_t n, size_t each) {
    const size_t blocks = (n + each - 1) / each;
    return unsigned(blocks < 0x7FFFFFFF ? blocks : 0x7FFFFFFF);
}

/// Threads for a row of n in steps of `width`: whole warps, at most `most`.
inline unsigned threads_for(size_t n, int width, unsigned most) {
    const size_t wanted = ((n + size_t(width) - 1) / size_t(width) + 31) / 32 * 32;
    return wanted < 32 ? 32 : wanted < most ? unsigned(wanted) : most;
}

/// f(i, x[i]) for the elements of a row that are this thread's, `thread` of `threads`. In packs
/// from the first address on that takes them: rows of odd length begin anywhere.
template <class T, class F>
__device__ inline void for_each_of_row(const T* x, size_t n, unsigned thread, unsigned threads,
                                       F f) {
    constexpr int width = pack_width(sizeof(T));
    const size_t past = size_t(reinterpret_cast<std::uintptr_t>(x) % 16) / sizeof(T);
    const size_t to_pack = past == 0 ? 0 : width - past, head = to_pack < n ? to_pack : n;
    const size_t whole = head + (n - head) / width * width;
    for (size_t i = thread; i < head; i += threads) f(i, to_float(x[i]));
    for (size_t i = head + size_t(thread) * width; i < whole; i += size_t(threads) * width) {
        const pack<T, width> p = load<width>(x + i);
        for (int k = 0; k < width; ++k) f(i + size_t(k), to_float(p.x[k]));
    }
    for (size_t i = whole + thread; i < n; i += threads) f(i, to_float(x[i]));
}

} // namespace mpt::kernels
