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
#include <cstring>
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
/// What carries a pack's bytes: CUDA's own type of 8 or 16 bytes, which no compiler takes apart.
template <class Pack>
using carrier = std::conditional_t<
    sizeof(Pack) == 16, uint4, std::conditional_t<sizeof(Pack) == 8, uint2, Pack>>;
template <int n, class T>
__device__ inline pack<T, n> load(const T* at) {
    using bytes = carrier<pack<T, n>>;
    const bytes whole = *reinterpret_cast<const bytes*>(at);
    pack<T, n> p;
    memcpy(static_cast<void*>(&p), &whole, sizeof p);
    return p;
}
template <class T, int n>
__device__ inline void store(T* at, const pack<T, n>& p) {
    using bytes = carrier<pack<T, n>>;
    bytes whole;
    memcpy(static_cast<void*>(&whole), &p, sizeof p);
    *reinterpret_cast<bytes*>(at) = whole;
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

template <int n>
struct part { // what one call of f is to do
    static constexpr int count = n;
};

/// f(i, part) for this thread's elements of a row of n, `thread` of `threads`; x are where the rows
/// begin that f loads or stores. In packs where all of them come to a multiple of 16 bytes at the
/// same element (rows of odd length begin anywhere), else one by one.
template <class F, class T, class... More>
__device__ inline void for_my_part_of_row(size_t n, unsigned thread, unsigned threads, F f,
                                          const T* x, const More*... more) {
    constexpr int width = pack_width(sizeof(T));
    const auto past = [](const T* at) { return reinterpret_cast<std::uintptr_t>(at) % 16; };
    size_t head = n; // before the first pack
    if (((past(more) == past(x)) && ...)) {
        const size_t to_pack = (16 - past(x)) % 16 / sizeof(T);
        head = to_pack < n ? to_pack : n;
    }
    const size_t whole = head + (n - head) / width * width;
    for (size_t i = thread; i < head; i += threads) f(i, part<1>{});
    for (size_t i = head + size_t(thread) * width; i < whole; i += size_t(threads) * width)
        f(i, part<width>{});
    for (size_t i = whole + thread; i < n; i += threads) f(i, part<1>{});
}

} // namespace mpt::kernels
