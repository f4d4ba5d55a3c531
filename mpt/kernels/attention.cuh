// SPDX-License-Identifier: MIT
/// @file attention.cuh
/// Causal attention forward: the step that fits the type.                  tier 3, needs:
/// kernels/attention_fma.cuh kernels/attention_wmma.cuh
///
/// Idea     float takes the multiply-adds of every core, 16 bits the tensor cores.
/// See      attention_fma.cuh (how it works), attention_wmma.cuh, attention_tiles.cuh (the
///          arguments), attention_backward.cuh, tests/kernels/attention_test.cpp
#pragma once
#include "mpt/kernels/attention_fma.cuh"  // attention_forward_fma
#include "mpt/kernels/attention_wmma.cuh" // attention_forward_wmma

namespace mpt::kernels {

/// out and lse of q, k, v.
template <class T>
void attention_forward(attention_args<T> x, cudaStream_t s) {
    if constexpr (sizeof(T) == 2)
        attention_forward_wmma(x, s);
    else
        attention_forward_fma(x, s);
}

} // namespace mpt::kernels
