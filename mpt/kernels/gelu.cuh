// SPDX-License-Identifier: MIT
/// @file gelu.cuh
/// GELU, in GPT-2's tanh form, and its gradient, on the device.            tier 3, needs:
/// kernels/elementwise.cuh kernels/scalar.cuh
///
/// Idea     As nn/gelu.hpp: (1 + tanh u)/2 = 1/(1 + e^-2u), so one exp does it, and far below zero
///          nothing cancels. Backward computes forward's switch again: that is cheaper than to
///          fetch it.
/// Formula  y = x s,  s = 1/(1 + e^-2u),  u = sqrt(2/pi) (x + 0.044715 x^3)
///          dx = dy (s + 2 x s (1 - s) du/dx)
/// Costs    bytes an element: forward 1 read, 1 write; backward 2 reads, 1 write
/// Breaks   s (1 - s) of a saved 16-bit s: 1 - s is 0 from x = 2.4 on
/// Source   Hendrycks, Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415
/// See      nn/gelu.hpp, elementwise.cuh, tests/kernels/gelu_test.cpp
#pragma once
#include "mpt/kernels/elementwise.cuh" // for_my_elements, over_elements
#include "mpt/kernels/scalar.cuh"      // pack, load, store, fit, to_float, from_float

namespace mpt::kernels {

// 1/(1 + e^-2u)
__device__ inline float gelu_switch(float x) {
    constexpr float minus_2_root = -1.5957691216057308f, cubic = 0.044715f; // -2 sqrt(2/pi)
    return 1.0f / (1.0f + expf(minus_2_root * (x + cubic * x * x * x)));
}

__device__ inline float gelu_slope(float x) {
    constexpr float twice_root = 1.5957691216057308f, cubic3 = float(3 * 0.044715);
    // past 40 s is 0 or 1, but x^2 might be infinite; NaN stays
    const float z = x > 40.0f ? 40.0f : x < -40.0f ? -40.0f : x;
    const float s = gelu_switch(z);
    return s + z * s * (1.0f - s) * twice_root * (1.0f + cubic3 * z * z);
}

template <class T, int width>
__global__ void gelu_forward_kernel(T* y, const T* x, size_t n) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        pack<T, part.count> p = load<part.count>(x + i);
        for (int k = 0; k < part.count; ++k) {
            const float v = to_float(p.x[k]);
            p.x[k] = from_float<T>(v * gelu_switch(v));
        }
        store(y + i, p);
    });
}

template <class T, int width>
__global__ void gelu_backward_kernel(T* dx, const T* dy, const T* x, size_t n) {
    for_my_elements<width>(n, [=](size_t i, auto part) {
        const pack<T, part.count> p = load<part.count>(x + i);
        pack<T, part.count> d = load<part.count>(dy + i);
        for (int k = 0; k < part.count; ++k)
            d.x[k] = from_float<T>(to_float(d.x[k]) * gelu_slope(to_float(p.x[k])));
        store(dx + i, d);
    });
}

/// y = gelu(x), elementwise. y may be x.
template <class T>
void gelu_forward(T* y, const T* x, size_t n, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(T));
    if (n == 0) return;
    if (fit<w>(y, x))
        launch<gelu_forward_kernel<T, w>>(over_elements(n, w, stream), y, x, n);
    else
        launch<gelu_forward_kernel<T, 1>>(over_elements(n, 1, stream), y, x, n);
}

/// dx = dy gelu'(x), elementwise. dx may be dy or x.
template <class T>
void gelu_backward(T* dx, const T* dy, const T* x, size_t n, cudaStream_t stream) {
    constexpr int w = pack_width(sizeof(T));
    if (n == 0) return;
    if (fit<w>(dx, dy, x))
        launch<gelu_backward_kernel<T, w>>(over_elements(n, w, stream), dx, dy, x, n);
    else
        launch<gelu_backward_kernel<T, 1>>(over_elements(n, 1, stream), dx, dy, x, n);
}

} // namespace mpt::kernels
