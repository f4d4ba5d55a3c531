// SPDX-License-Identifier: MIT
/// @file four.cuh
/// Four neighbours in one access, where their address allows it.           tier 3, needs:
/// kernels/launch.cuh kernels/scalar.cuh
///
/// Idea     A thread that reads 16 bytes at once sends one request where four single floats send
///          four. The hardware asks that the address divides by the size of the access: the first
///          row of an odd matrix may fit, the second does not.
/// Breaks   a reinterpret_cast to four<T> at an address that aligned_to_four() refuses
/// See      kernels/matmul.cuh, kernels/attention.cuh
#pragma once
#include "mpt/kernels/launch.cuh" // __device__
#include "mpt/kernels/scalar.cuh" // to_float, from_float

#include <cstddef>
#include <cstdint>

namespace mpt::kernels {

template <class T>
struct alignas(4 * sizeof(T)) four {
    T x[4];
};

/// Does every fourth element of every row lie on a four<T>'s alignment? Rows `stride` apart.
template <class T>
__host__ __device__ bool aligned_to_four(const T* x, size_t stride) {
    return stride % 4 == 0 && reinterpret_cast<uintptr_t>(x) % (4 * sizeof(T)) == 0;
}

/// x[e] = from[e] for e < left, else 0. `vectors`: from is aligned.
template <class T>
__device__ void load_four(float (&x)[4], const T* from, int left, bool vectors) {
    if (vectors && left >= 4) {
        const four<T> v = *reinterpret_cast<const four<T>*>(from);
        for (int e = 0; e < 4; ++e) x[e] = to_float(v.x[e]);
    } else {
        for (int e = 0; e < 4; ++e) x[e] = e < left ? to_float(from[e]) : 0.0f;
    }
}

/// to[e] = x[e] rounded, for e < left.
template <class T>
__device__ void store_four(T* to, const float (&x)[4], int left, bool vectors) {
    if (vectors && left >= 4) {
        four<T> v;
        for (int e = 0; e < 4; ++e) v.x[e] = from_float<T>(x[e]);
        *reinterpret_cast<four<T>*>(to) = v;
    } else {
        for (int e = 0; e < 4; ++e)
            if (e < left) to[e] = from_float<T>(x[e]);
    }
}

} // namespace mpt::kernels
