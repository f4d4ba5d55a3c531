// SPDX-License-Identifier: MIT
/// @file attention_backward.cuh
/// Attention's three gradients: the step that fits the type.               tier 3, needs:
/// kernels/attention.cuh kernels/attention_fma_backward.cuh kernels/attention_wmma_backward.cuh
///
/// Idea     float takes the multiply-adds of every core, 16 bits the tensor cores.
/// See      attention_fma_backward.cuh (how it works, the arguments), attention.cuh,
///          attention_wmma_backward.cuh, tests/kernels/attention_test.cpp
#pragma once
#include "mpt/kernels/attention.cuh"               // attention_forward, beside which this stands
#include "mpt/kernels/attention_fma_backward.cuh"  // attention_backward_fma
#include "mpt/kernels/attention_wmma_backward.cuh" // attention_backward_wmma

namespace mpt::kernels {

/// dq, dk, dv (overwritten) of dout.
template <class T>
void attention_backward(attention_backward_args<T> y, cudaStream_t s) {
    if constexpr (sizeof(T) == 2)
        attention_backward_wmma(y, s);
    else
        attention_backward_fma(y, s);
}

} // namespace mpt::kernels
