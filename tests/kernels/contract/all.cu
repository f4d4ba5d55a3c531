// SPDX-License-Identifier: MIT
// Every kernel of mpt/kernels, for every type it takes, in one object: what registers.sh looks at.
#include "mpt/kernels/adamw.cuh"
#include "mpt/kernels/adamw8bit.cuh"
#include "mpt/kernels/attention.cuh"
#include "mpt/kernels/attention_backward.cuh"
#include "mpt/kernels/cast.cuh"
#include "mpt/kernels/column_sums.cuh"
#include "mpt/kernels/cross_entropy.cuh"
#include "mpt/kernels/dropout.cuh"
#include "mpt/kernels/elementwise.cuh"
#include "mpt/kernels/embedding.cuh"
#include "mpt/kernels/gelu.cuh"
#include "mpt/kernels/inspect.cuh"
#include "mpt/kernels/layernorm.cuh"
#include "mpt/kernels/matmul.cuh"
#include "mpt/kernels/matmul_wmma.cuh"
#include "mpt/kernels/rank_order_sum.cuh"
#include "mpt/kernels/reduce.cuh"
#include "mpt/kernels/residual_scale.cuh"
#include "mpt/kernels/scale.cuh"
#include "mpt/kernels/softmax.cuh"

using namespace mpt::kernels;

template <class... Launchers>
void compile(Launchers... launchers) { // an address is enough for nvcc to compile the kernel
    const void* volatile address = nullptr;
    ((address = reinterpret_cast<const void*>(launchers)), ...);
}

template <class T>
void each_type() {
    compile(fill<T>, add<T>, add_to_sums<T>, rank_order_sum<T>);
    compile(dropout<T>, residual<T>, inspect<T>);
    compile(column_sums<T>, scaled_residual_forward<T>, scaled_residual_backward<T>);
    compile(embedding_forward<T>, embedding_backward<T>);
    compile(gelu_forward<T>, gelu_backward<T>);
    compile(softmax_naive<T>, softmax_online<T>, softmax_forward<T>, softmax_backward<T>);
    compile(cross_entropy_forward<T>, cross_entropy_backward<T>, cross_entropy<T>);
    compile(layernorm_forward<T>, layernorm_backward<T>, layernorm_backward_apart<T>);
    compile(cast<T, float>, cast<T, __half>, cast<T, __nv_bfloat16>);
    compile(adamw<T, T>, adamw<T, float>, adamw8bit<T, T>, adamw8bit<T, float>);
    compile(matmul_naive<T>, matmul_coalesced<T>, matmul_tiled<T>, matmul_registers<T>, matmul<T>);
    compile(attention_forward<T>, attention_forward_fma<T>);
    compile(attention_backward<T>, attention_backward_fma<T>);
}

void all_kernels() {
    each_type<float>();
    each_type<__half>();
    each_type<__nv_bfloat16>();
    compile(sum, begin_step, add_found, decide, end_step);
}
