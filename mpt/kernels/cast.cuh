// SPDX-License-Identifier: MIT
/// @file cast.cuh
/// Arrays from one format to another, on the device.                       tier 3, needs:
/// kernels/elementwise.cuh kernels/scalar.cuh
///
/// Idea     Pure traffic: the conversion itself is one instruction. So the versions differ in how
///          many bytes a load moves, and nothing else.
/// Formula  to[i] = round(from[i]), to nearest, ties to even
/// Costs    bytes an element: 6 between fp32 and 16 bits, 4 between the 16-bit formats
/// Breaks   rounding by adding to the bits without looking for NaN: 7F800001 becomes infinity,
///          7FFF8C22 becomes -0 in bf16; cutting off instead of rounding: 3E89CCD5 must be 3E8A
/// Source   tile-ai/tilelang#2481, dotnet/runtime#130583, stillwater-sc/universal#1133 (the values)
/// See      numeric/cast.hpp (the same bits; a NaN is a NaN, its payload the device's own),
///          tests/kernels/cast_test.cpp, tests/kernels/pitfalls_test.cpp
#pragma once
#include "mpt/kernels/elementwise.cuh" // for_my_elements, over_elements
#include "mpt/kernels/scalar.cuh"      // pack, load, store, fit, to_float, from_float

namespace mpt::kernels {

/// Version 1, width 1: a warp reads 128 and writes 64 bytes at a time.
/// Version 2, width 4: each thread 16 bytes of the wider format, so a warp 512: a quarter of the
/// instructions, four times the bytes under way.
template <class To, class From, int width>
__global__ void cast_kernel(To* to, const From* from, size_t n) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        constexpr int count = part.count;
        const pack<From, count> p = load<count>(from + i);
        pack<To, count> q;
        for (int k = 0; k < count; ++k) {
            if constexpr (std::is_same_v<To, From>)
                q.x[k] = p.x[k]; // a copy, payloads of NaN and all
            else
                q.x[k] = from_float<To>(to_float(p.x[k]));
        }
        store(to + i, q);
    });
}

/// to[i] = from[i] in another format, i < n. The arrays do not overlap.
template <class To, class From>
void cast(To* to, const From* from, size_t n, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
    if (n == 0) return;
    if (fit<w>(to) && fit<w>(from))
        launch<cast_kernel<To, From, w>>(over_elements(n, w, stream), to, from, n);
    else
        launch<cast_kernel<To, From, 1>>(over_elements(n, 1, stream), to, from, n);
}

} // namespace mpt::kernels
