// SPDX-License-Identifier: MIT
// unfused_attention.hpp -- causal attention as a list of kernels, with all scores in memory.
#pragma once
#include "attention_problem.hpp" // attention_args, D

#include "mpt/kernels/matmul.cuh"  // matmul_registers, tiles_of
#include "mpt/kernels/softmax.cuh" // softmax_forward

// The scores as softmax wants them: scaled, and -infinity behind the diagonal.
__global__ void scale_and_hide(float* s, int T, float scale) {
    const int j = int(blockIdx.x * blockDim.x + threadIdx.x), i = int(blockIdx.y);
    if (j < T) s[size_t(i) * T + j] = j <= i ? s[size_t(i) * T + j] * scale : -infinity;
}

//! [unfused]
// Four kernels a head; scores (heads,T,T) lie in memory between them.
inline void unfused(const attention_args<float>& x, float* scores) {
    const int T = x.Tq;
    for (int h = 0; h < x.heads; ++h) {
        float* const s = scores + size_t(h) * T * T;
        const int group = x.heads / x.kv_heads;
        matmul_args<float> qk, pv;
        qk.c = s, qk.a = x.q + h * D, qk.b = x.k + h / group * D;
        qk.m = qk.n = T, qk.k = D, qk.lda = int(x.q_stride), qk.ldb = int(x.kv_stride);
        qk.b_transposed = true;
        matmul_registers(qk, nullptr);
        mpt::launch<scale_and_hide>({dim3(tiles_of(T, 128), unsigned(T)), 128}, s, T, x.scale);
        softmax_forward<float>(s, s, T, T, nullptr);
        pv.c = x.out + h * D, pv.a = s, pv.b = x.v + h / group * D;
        pv.m = pv.k = T, pv.n = D, pv.ldb = int(x.kv_stride), pv.ldc = int(x.out_stride);
        matmul_registers(pv, nullptr);
    }
}
//! [unfused]
