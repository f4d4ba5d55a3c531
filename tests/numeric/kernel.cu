// SPDX-License-Identifier: MIT
// Compiled, not run: what is marked MPT_HOST_DEVICE can be called from a kernel, as C++17.
#include "mpt/base/philox.hpp"             // philox, uniform01
#include "mpt/numeric/fp4_fp6.hpp"         // e2m1
#include "mpt/numeric/fp8.hpp"             // e4m3, e5m2
#include "mpt/numeric/int8.hpp"            // quantize_int8, dequantize_int8
#include "mpt/numeric/loss_scale_rule.hpp" // update_scale
#include "mpt/numeric/mx.hpp"              // mx_quantize, mx_dequantize
#include "mpt/numeric/nvfp4.hpp"           // nvfp4_quantize, nvfp4_dequantize
#include "mpt/numeric/rounding_modes.hpp"  // toward_zero, half_away
#include "mpt/numeric/scalar.hpp"          // widen, narrow, round_tf32
#include "mpt/numeric/stochastic.hpp"      // stochastic, stochastic_stream

template <class T>
__global__ void scale(const T* x, T* y, float* t, unsigned seed) {
    const unsigned i = threadIdx.x;
    const mpt::philox4 r = mpt::philox({{i, 0, 0, 0}}, seed, 0);
    y[i] = mpt::narrow<T>(mpt::widen(x[i]) * mpt::uniform01(r.x[0]));
    t[i] = mpt::round_tf32(mpt::widen(x[i])) + mpt::format<T>::max;
}

template __global__ void scale(const mpt::fp16*, mpt::fp16*, float*, unsigned);
template __global__ void scale(const mpt::bf16*, mpt::bf16*, float*, unsigned);
template __global__ void scale(const float*, float*, float*, unsigned);
template __global__ void scale(const mpt::e4m3*, mpt::e4m3*, float*, unsigned);
template __global__ void scale(const mpt::e5m2*, mpt::e5m2*, float*, unsigned);
template __global__ void scale(const mpt::e2m1*, mpt::e2m1*, float*, unsigned);

// A thread a block of 32.
template <class T>
__global__ void through_mx(const float* x, float* y, mpt::mx_rule rule) {
    const unsigned first = 32 * (blockIdx.x * blockDim.x + threadIdx.x);
    mpt::mx_dequantize(mpt::mx_quantize<T>(x + first, 32, rule), y + first);
}
template __global__ void through_mx<mpt::e4m3>(const float*, float*, mpt::mx_rule);
template __global__ void through_mx<mpt::e2m1>(const float*, float*, mpt::mx_rule);
template __global__ void through_mx<mpt::mxint8>(const float*, float*, mpt::mx_rule);

__global__ void through_nvfp4(const float* x, float* y, mpt::nvfp4_tensor_scale tensor) {
    const unsigned first = 16 * (blockIdx.x * blockDim.x + threadIdx.x);
    mpt::nvfp4_dequantize(mpt::nvfp4_quantize(x + first, tensor), tensor, y + first);
}

// The last kernel of a step where the loss scale lives on the device: one thread.
__global__ void move_scale(mpt::scale_state* s, mpt::loss_scale_rule rule) {
    mpt::update_scale(*s, rule);
}

template <class T>
__global__ void round(const float* x, T* y, unsigned step) {
    const unsigned i = threadIdx.x;
    y[3 * i] = mpt::stochastic<T>(x[i], mpt::stochastic_stream{2026, step}.bits(i));
    y[3 * i + 1] = mpt::toward_zero<T>(x[i]);
    y[3 * i + 2] = mpt::half_away<T>(mpt::dequantize_int8(mpt::quantize_int8(x[i], 1.0f), 1.0f));
}

template __global__ void round(const float*, mpt::fp16*, unsigned);
template __global__ void round(const float*, mpt::bf16*, unsigned);
template __global__ void round(const float*, mpt::tf32*, unsigned);
template __global__ void round(const float*, mpt::e4m3*, unsigned);
template __global__ void round(const float*, mpt::e5m2*, unsigned);
