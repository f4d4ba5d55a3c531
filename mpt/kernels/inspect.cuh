// SPDX-License-Identifier: MIT
/// @file inspect.cuh
/// One read of the gradients: are they finite, and how long.               tier 3, needs:
/// kernels/block_reduce.cuh kernels/elementwise.cuh kernels/reduce.cuh kernels/scalar.cuh
///
/// Idea     Finite or not, the sum of squares, and where the first bad one lies, in one pass; the
///          answer stays on the device. Squares of a pack are added in fp32, packs in fp64: GPUs
///          for games do one fp64 operation in the time of 64 of fp32. A pack whose sum leaves the
///          range of fp32 (|g| > 1.8e19, or below 2^-50) is squared again in fp64.
/// Formula  squares = sum of g^2, each pack within 7 * 2^-24 of it;  first_bad = least such index
/// Costs    size of g bytes an element; 24 bytes of scratch a block, at most 1024 blocks
/// Breaks   taking an infinite sum for an overflow; atomics in place of the second kernel: other
///          bits each time, and a scale or a clip that no run repeats
/// See      train/inspect.hpp, reduce.cuh (the pair of kernels), tests/kernels/inspect_test.cpp
#pragma once
#include "mpt/kernels/block_reduce.cuh" // block_sum, block_fold
#include "mpt/kernels/elementwise.cuh"  // for_my_elements, element_threads
#include "mpt/kernels/reduce.cuh"       // partial_blocks
#include "mpt/kernels/scalar.cuh"       // pack, load, fit, is_finite, to_float

namespace mpt::kernels {

struct inspect_result {
    double squares;               // sum of squares; of use where bad is 0
    unsigned long long bad;       // elements that are infinite or NaN
    unsigned long long first_bad; // index of the first of these; 0 where there is none
};

constexpr unsigned long long nowhere = ~0ULL;

// What all threads of the block found together, in all of them.
__device__ inline inspect_result together(inspect_result r) {
    r.squares = block_sum(r.squares);
    r.bad = block_sum(r.bad);
    r.first_bad = block_fold(r.first_bad, nowhere, [](auto a, auto b) { return b < a ? b : a; });
    return r;
}

template <class G, int width>
__global__ void inspect_kernel(inspect_result* partial, const G* g, size_t n) {
    inspect_result mine{0, 0, nowhere};
    for_my_elements<width>(n, [&](size_t i, auto part) {
        constexpr int count = part.count;
        const pack<G, count> p = load<count>(g + i);
        float sum = 0;
        for (int k = 0; k < count; ++k) sum += to_float(p.x[k]) * to_float(p.x[k]);
        if (sum >= 0x1p-100f && is_finite(sum)) {
            mine.squares += double(sum);
            return;
        }
        for (int k = 0; k < count; ++k) {
            const double x = double(to_float(p.x[k]));
            mine.squares += x * x;
            if (is_finite(to_float(p.x[k]))) continue;
            ++mine.bad;
            if (mine.first_bad == nowhere) mine.first_bad = i + size_t(k); // i only grows
        }
    });
    mine = together(mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

template <class Result>
__global__ void inspect_partials_kernel(Result* result, const Result* partial, unsigned n) {
    Result mine{0, 0, nowhere};
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        mine.squares += partial[i].squares;
        mine.bad += partial[i].bad;
        if (partial[i].first_bad < mine.first_bad) mine.first_bad = partial[i].first_bad;
    }
    mine = together(mine);
    if (mine.bad == 0) mine.first_bad = 0;
    if (threadIdx.x == 0) *result = mine;
}

inline void inspect_partials(inspect_result* result, const inspect_result* partial, unsigned n,
                             cudaStream_t stream) {
    launch<inspect_partials_kernel<inspect_result>>({1, element_threads, 0, stream}, result,
                                                    partial, n);
}

/// Bytes of scratch that inspect wants.
inline size_t inspect_bytes(size_t n) { return partial_blocks(n) * sizeof(inspect_result); }

/// *result of g[0..n). result and scratch lie on the device.
template <class G>
void inspect(inspect_result* result, const G* g, size_t n, void* scratch, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(G));
    const unsigned blocks = partial_blocks(n);
    auto* const partial = static_cast<inspect_result*>(scratch);
    if (fit<w>(g))
        launch<inspect_kernel<G, w>>({blocks, element_threads, 0, stream}, partial, g, n);
    else
        launch<inspect_kernel<G, 1>>({blocks, element_threads, 0, stream}, partial, g, n);
    inspect_partials(result, partial, blocks, stream);
}

} // namespace mpt::kernels
