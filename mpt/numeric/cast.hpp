// SPDX-License-Identifier: MIT
/// @file cast.hpp
/// Whole arrays from one format to another.                                tier 1, needs:
/// base/qualifiers.hpp numeric/cast_lanes.hpp numeric/scalar.hpp
///
/// Idea     The rounding of the scalar types, 16 elements at a time where there are instructions
///          for it (cast_lanes.hpp), a plain loop elsewhere, and the same bits from both.
/// Costs    memory traffic, hardly any arithmetic: 6 bytes an element between fp32 and 16 bits, 5
///          to and from fp8.
///          An ordinary store first reads the line it overwrites; a streaming store does not, but
///          leaves the result in main memory, so it pays only for what would not stay in a cache.
/// Breaks   arrays that overlap (widening in place); streaming what is read again at once
/// See      scalar.hpp (one element), stochastic.hpp, tests/numeric/cast_test.cpp,
///          tests/numeric/digest.cpp
#pragma once
#include "mpt/base/qualifiers.hpp"    // MPT_RESTRICT
#include "mpt/numeric/cast_lanes.hpp" // exist, load, narrowed, widened, alone, store
#include "mpt/numeric/scalar.hpp"     // widen, narrow, wide_t

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mpt {

/// One element. Between any two formats, except from double to one narrower than fp32: by way of
/// fp32 that would be two roundings.
template <class D, class S>
constexpr D convert(S x) {
    static_assert(!std::is_same_v<S, double> || std::is_same_v<D, wide_t<D>>,
                  "double to a narrow format would round twice");
    return narrow<D>(static_cast<wide_t<D>>(widen(x)));
}

namespace lanes {

#if defined(__F16C__) || defined(__AVX2__)
// One step: 16 elements of src to dst. A single stream of loads waits for memory much of the time,
// so what comes 8 KiB later is called into the second cache (past the end that does no harm).
inline void fetch_ahead(const void* src) {
    _mm_prefetch(static_cast<const char*>(src) + 8192, _MM_HINT_T1);
}

// Ordinary stores to a large array: the lines that will be overwritten are called ahead, too.
inline void fetch_to_write(void* dst) { __builtin_prefetch(static_cast<char*>(dst) + 2048, 1); }

enum class stores { ordinary, large, streaming };

template <stores how, class D>
void step(const float* src, D* dst) {
    constexpr bool streaming = how == stores::streaming;
    fetch_ahead(src);
    // From the second cache into the first in time: loads that wait hold up the arithmetic.
    if constexpr (how != stores::ordinary)
        _mm_prefetch(reinterpret_cast<const char*>(src) + 2048, _MM_HINT_T0);
    if constexpr (how == stores::large) fetch_to_write(dst);
    const floats x = load(src);
    if (alone(x, D{})) {
        for (int i = 0; i < 16; ++i) dst[i] = convert<D>(src[i]);
        return;
    }
    store<streaming>(dst, narrowed(x, D{}));
}

template <stores how, class S>
void step(const S* src, float* dst) {
    constexpr bool streaming = how == stores::streaming;
    // Two or four times as many lines to write as to read: those are what to call ahead.
    if constexpr (how == stores::large)
        fetch_to_write(dst);
    else
        fetch_ahead(src);
    store<streaming>(dst, widened(load(src), S{}));
}
#endif // F16C or AVX2

/// Elements from which on a result is not expected in the nearest cache.
inline constexpr std::size_t large_array = 16384;

template <bool streaming, class S, class D>
void convert_all(const S* MPT_RESTRICT src, D* MPT_RESTRICT dst, std::size_t n) {
    std::size_t i = 0;
#if defined(__F16C__) || defined(__AVX2__)
    using narrow_type = std::conditional_t<std::is_same_v<S, float>, D, S>;
    constexpr bool one_is_float = std::is_same_v<S, float> || std::is_same_v<D, float>;
    if constexpr (one_is_float && exist<narrow_type>) {
        if constexpr (streaming) { // to whole cache lines
            for (; i < n && reinterpret_cast<std::uintptr_t>(dst + i) % 64 != 0; ++i)
                dst[i] = convert<D>(src[i]);
        }
        const std::size_t whole = i + (n - i) / 16 * 16;
        if (!streaming && n >= large_array)
            for (; i < whole; i += 16) step<stores::large>(src + i, dst + i);
        else
            for (; i < whole; i += 16)
                step<streaming ? stores::streaming : stores::ordinary>(src + i, dst + i);
        // Streaming stores may pass later ones; a flag set after this must not be seen before.
        if constexpr (streaming) _mm_sfence();
    }
#endif
    for (; i < n; ++i) dst[i] = convert<D>(src[i]); // the tail, or all of it
}

} // namespace lanes

/// dst[i] = src[i] in another format, i < n, each rounded once. The arrays do not overlap. One
/// thread: the caller divides the work.
template <class S, class D>
void cast(const S* src, D* dst, std::size_t n) {
    if constexpr (std::is_same_v<S, D>) {
        if (n > 0) std::memmove(dst, src, n * sizeof(D));
    } else {
        lanes::convert_all<false>(src, dst, n);
    }
}

/// cast, by streaming stores where there are such: for results too large to stay in a cache.
template <class S, class D>
void cast_streaming(const S* src, D* dst, std::size_t n) {
    lanes::convert_all<true>(src, dst, n);
}

/// Does streaming pay, for arrays of so many bytes (read and written, by all threads together)? The
/// size of the last cache is no good measure: a virtual machine reports all of it, and shares it
/// with others. 32 MiB is more than two cores keep for themselves where this was measured.
constexpr bool streaming_pays(std::size_t bytes) { return bytes > (std::size_t(32) << 20); }

/// src[0..n) in the wide type: src itself where T is wide already (nothing is copied), else
/// scratch, which holds n elements and receives them.
template <class T>
const wide_t<T>* widen(const T* src, std::size_t n, wide_t<T>* scratch) {
    if constexpr (std::is_same_v<T, wide_t<T>>) {
        return src;
    } else {
        cast(src, scratch, n);
        return scratch;
    }
}

/// dst[i] = src[i] rounded to T, i < n. Where T is wide and src is dst, there is nothing to do.
template <class T>
void narrow(const wide_t<T>* src, T* dst, std::size_t n) {
    if (static_cast<const void*>(src) != static_cast<const void*>(dst)) cast(src, dst, n);
}

/// dst[i] = src[i] rounded to tf32, as fp32, i < n. dst may be src.
inline void round_tf32(const float* src, float* dst, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) dst[i] = round_tf32(src[i]);
}

} // namespace mpt
