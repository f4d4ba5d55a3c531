// SPDX-License-Identifier: MIT
/// @file adamw.cuh
/// AdamW and the cast of the new weights in one pass.                      tier 3, needs:
/// kernels/elementwise.cuh kernels/random.cuh kernels/scalar.cuh
///
/// Idea     Each number is read once and written once. found_inf, and where wanted the numbers of
///          the step, are read from device memory: the host never waits to learn whether a step
///          counts. Every operation is rounded by itself, as the plain loop's are, so that both
///          have the same bits; left alone nvcc fuses a * b + c, and they differ.
/// Formula  g' = factor g;  m += keep1 (g' - m);  v += keep2 (g'^2 - v);
///          p -= decay p + rate m / (sqrt(v) correction + eps);  weights = round(p)
/// Costs    28 bytes a parameter = 3 * 8 (p, m, v) + 4 (fp32 g, or 16-bit g and weights);
///          22 without a master, and Philox for 8 elements at a time
/// Breaks   six kernels in place of one: 60 bytes;  found_inf read by the host: a wait a step
/// Source   Loshchilov and Hutter 2019, arXiv:1711.05101
/// See      train/adamw.hpp (the same bits), train/adam_moments.hpp (the numbers), random.cuh,
///          chapters/18_fused_step.cpp, tests/kernels/adamw_test.cpp
#pragma once
#include "mpt/kernels/elementwise.cuh" // for_my_elements, over_elements
#include "mpt/kernels/random.cuh"      // rounding_counter, upper_half, stochastic
#include "mpt/kernels/scalar.cuh"      // pack, load, store, fit, to_float, from_float

namespace mpt::kernels {

/// One step's numbers: those of train/adam_moments.hpp, and lr * weight_decay.
struct adamw_numbers {
    float factor;     // unscales and clips the gradients
    float keep1;      // 1 - beta1
    float keep2;      // 1 - beta2
    float rate;       // lr / (1 - beta1^t)
    float correction; // 1 / sqrt(1 - beta2^t)
    float eps;
    float decay;         // of the tensors that decay
    std::uint32_t t = 0; // the step, from 1; stochastic rounding draws by it
};

template <class T, class G>
struct adamw_args {
    float* p = nullptr;     // master, updated; null: the weights are it, rounded stochastically
    float* m = nullptr;     // first moments, updated
    float* v = nullptr;     // second moments, updated
    const G* g = nullptr;   // gradients, still scaled
    T* weights = nullptr;   // receive p rounded to T; of float it may be p itself
    size_t n = 0;           // elements of all of these
    std::uint64_t first = 0; // number of the first in the flat buffer: rounding draws by it
    bool decays = true;      // is the tensor one that decays
    adamw_numbers numbers = {};
    const adamw_numbers* device_numbers = nullptr; // not null: taken instead, from the device
    const float* found_inf = nullptr; // on the device; not 0: nothing changes. Null: not asked
    std::uint64_t rounding_seed = 0;  // without a master

    __device__ bool skips() const { return found_inf && *found_inf != 0; }
    __device__ adamw_numbers numbers_now() const {
        adamw_numbers c = device_numbers ? *device_numbers : numbers;
        if (!decays) c.decay = 0;
        return c;
    }
};

/// One element: m and v updated; the new p. The order and the roundings of the plain loop.
__device__ inline float adamw_step(float p, float& m, float& v, float g, const adamw_numbers& c) {
    const float scaled = __fmul_rn(c.factor, g);
    m = __fadd_rn(m, __fmul_rn(c.keep1, __fadd_rn(scaled, -m)));
    v = __fadd_rn(v, __fmul_rn(c.keep2, __fadd_rn(__fmul_rn(scaled, scaled), -v)));
    const float direction =
        __fdiv_rn(m, __fadd_rn(__fmul_rn(__fsqrt_rn(v), c.correction), c.eps));
    return __fadd_rn(p, -__fadd_rn(__fmul_rn(c.decay, p), __fmul_rn(c.rate, direction)));
}

template <class T, class G, int width>
__global__ void adamw_kernel(adamw_args<T, G> a) {
    if (a.skips()) return;
    const adamw_numbers c = a.numbers_now();
    for_my_elements<width>(a.n, [&](size_t i, auto part) {
        constexpr int count = part.count;
        pack<float, count> p = load<count>(a.p + i), m = load<count>(a.m + i),
                           v = load<count>(a.v + i);
        const pack<G, count> g = load<count>(a.g + i);
        pack<T, count> w;
        for (int k = 0; k < count; ++k) {
            p.x[k] = adamw_step(p.x[k], m.x[k], v.x[k], to_float(g.x[k]), c);
            w.x[k] = from_float<T>(p.x[k]);
        }
        store(a.p + i, p);
        store(a.m + i, m);
        store(a.v + i, v);
        if (static_cast<const void*>(a.weights) != a.p) store(a.weights + i, w);
    });
}

/// Without a master. Eight elements at distances of 16 share a counter: they are one thread's, and
/// 16 threads next to each other take the 128 elements of a block.
template <class T, class G>
__global__ void adamw_stochastic_kernel(adamw_args<T, G> a) {
    if (a.skips()) return;
    const adamw_numbers c = a.numbers_now();
    const std::uint64_t begin = a.first / 128 * 16, end = (a.first + a.n + 127) / 128 * 16;
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (std::uint64_t group = begin + size_t(blockIdx.x) * blockDim.x + threadIdx.x; group < end;
         group += step) {
        const random4 r = rounding_counter(group, a.rounding_seed, c.t);
        for (int k = 0; k < 8; ++k) {
            const std::uint64_t element = group / 16 * 128 + std::uint64_t(k) * 16 + group % 16;
            if (element < a.first || element >= a.first + a.n) continue;
            const size_t i = size_t(element - a.first);
            float m = a.m[i], v = a.v[i];
            const float p = adamw_step(to_float(a.weights[i]), m, v, to_float(a.g[i]), c);
            a.m[i] = m;
            a.v[i] = v;
            a.weights[i] = stochastic<T>(p, upper_half(r, k));
        }
    }
}

/// One step of n weights, or none where found_inf is set. Gradients: of T, or a window's in float.
template <class T, class G>
void adamw(const adamw_args<T, G>& a, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(float));
    if (a.n == 0) return;
    if (!a.p) {
        const size_t threads = ((a.first + a.n + 127) / 128 - a.first / 128) * 16;
        launch<adamw_stochastic_kernel<T, G>>(over_elements(threads, 1, stream), a);
    } else if (fit<w>(a.p, a.m, a.v) && fit<w>(a.g) && fit<w>(a.weights)) {
        launch<adamw_kernel<T, G, w>>(over_elements(a.n, w, stream), a);
    } else {
        launch<adamw_kernel<T, G, 1>>(over_elements(a.n, 1, stream), a);
    }
}

} // namespace mpt::kernels
