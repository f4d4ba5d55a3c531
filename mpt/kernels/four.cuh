// SPDX-License-Identifier: MIT
/// @file four.cuh
/// Four neighbours of a row that may end among them.                       tier 3, needs:
/// kernels/scalar.cuh
///
/// Idea     Matrices are read in groups of four, as packs where every row allows it: the first row
///          of an odd matrix may begin on 16 bytes, the second does not. What lies behind the
///          end of the row is taken as zero, which changes no sum.
/// See      kernels/matmul.cuh, kernels/matmul_wmma.cuh
#pragma once
#include "mpt/kernels/scalar.cuh" // pack, load, store, to_float, from_float

#include <cstddef>
#include <cstdint>

namespace mpt::kernels {

/// Does every fourth element of every row lie where a pack of four may? Rows are `stride` apart.
template <class T>
__device__ bool aligned_to_four(const T* x, size_t stride) {
    return stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x) % alignof(pack<T, 4>) == 0;
}

/// x[e] = from[e] for e < left, else 0. `vectors`: from is aligned.
template <class T>
__device__ void load_four(float (&x)[4], const T* from, int left, bool vectors) {
    if (vectors && left >= 4) {
        const pack<T, 4> v = load<4>(from);
        for (int e = 0; e < 4; ++e) x[e] = to_float(v.x[e]);
    } else {
        for (int e = 0; e < 4; ++e) x[e] = e < left ? to_float(from[e]) : 0.0f;
    }
}

/// to[e] = x[e] rounded, for e < left.
template <class T>
__device__ void store_four(T* to, const float (&x)[4], int left, bool vectors) {
    if (vectors && left >= 4) {
        pack<T, 4> v;
        for (int e = 0; e < 4; ++e) v.x[e] = from_float<T>(x[e]);
        store(to, v);
    } else {
        for (int e = 0; e < 4; ++e)
            if (e < left) to[e] = from_float<T>(x[e]);
    }
}

} // namespace mpt::kernels
