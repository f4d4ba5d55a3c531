// SPDX-License-Identifier: MIT
// separate_kernels.hpp -- operations of a step on whole arrays, a kernel each: of the update, of
// what is asked of the gradients before it, and of the loss. mpt/kernels/adamw.cuh, inspect.cuh and
// cross_entropy.cuh have them in one.
#pragma once
#include "mpt/kernels/adamw.cuh"        // adamw_args, adamw_numbers
#include "mpt/kernels/block_reduce.cuh" // block_sum
#include "mpt/kernels/cast.cuh"         // cast
#include "mpt/kernels/reduce.cuh"       // partial_blocks, sum_partials_kernel
#include "mpt/kernels/scalar.cuh"       // blocks_for, is_finite, to_float, from_float

#include <cstddef>

using namespace mpt::kernels;

//! [separate]
// Gradients are widened and divided by the loss scale, shortened, and then there are m, v, the
// master weights, and their 16-bit copy. g (n) lies in memory between the kernels, in fp32.
__global__ void unscale(float* g, const __half* scaled, float inverse, unsigned n, bool rounds) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = __fmul_rn(inverse, to_float(scaled[i]));
    g[i] = rounds ? to_float(from_float<__half>(x)) : x;
}
__global__ void shorten(float* g, float clip, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) g[i] = __fmul_rn(clip, g[i]);
}
__global__ void move_first(float* m, const float* g, float keep1, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) m[i] = __fadd_rn(m[i], __fmul_rn(keep1, __fadd_rn(g[i], -m[i])));
}
__global__ void move_second(float* v, const float* g, float keep2, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float squared = __fmul_rn(g[i], g[i]);
    v[i] = __fadd_rn(v[i], __fmul_rn(keep2, __fadd_rn(squared, -v[i])));
}
__global__ void move_master(float* p, const float* m, const float* v, adamw_numbers c, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float root = __fmul_rn(__fsqrt_rn(v[i]), c.correction);
    const float direction = __fdiv_rn(m[i], __fadd_rn(root, c.eps));
    p[i] = __fadd_rn(p[i], -__fadd_rn(__fmul_rn(c.decay, p[i]), __fmul_rn(c.rate, direction)));
}
//! [separate]

// each(name, bytes read, written, launch) for the six kernels, in their order. `rounds`, sabotage:
// an unscaled gradient is rounded to the 16 bits that it came in.
template <class Each>
void separate_adamw(const adamw_args<__half, __half>& a, float* g, float inverse, float clip,
                    bool rounds, cudaStream_t stream, Each each) {
    const auto n = unsigned(a.n);
    const mpt::launch_config all{blocks_for(n, 256), 256, 0, stream};
    const float *const m = a.m, *const v = a.v, *const gs = g, *const p = a.p;
    const adamw_numbers c = a.numbers;
    each("unscale", 2, 4, [=] { mpt::launch<unscale>(all, g, a.g, inverse, n, rounds); });
    each("clip", 4, 4, [=] { mpt::launch<shorten>(all, g, clip, n); });
    each("m", 8, 4, [=] { mpt::launch<move_first>(all, a.m, gs, c.keep1, n); });
    each("v", 8, 4, [=] { mpt::launch<move_second>(all, a.v, gs, c.keep2, n); });
    each("master", 12, 4, [=] { mpt::launch<move_master>(all, a.p, m, v, c, n); });
    each("cast", 4, 2, [=] { cast<__half, float>(a.weights, p, n, stream); });
}

// Is any gradient infinite or NaN? *found = 1 where one is.
__global__ void find_bad(int* found, const __half* g, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const int bad = i < n && !is_finite(to_float(g[i]));
    if (__syncthreads_or(bad) && threadIdx.x == 0) atomicExch(found, 1);
}
// A block's sum of squares.
__global__ void square_blocks(double* partial, const float* g, unsigned n) {
    double sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += double(g[i]) * double(g[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
inline void look_for_bad(int* found, const __half* g, std::size_t n) {
    mpt::launch<find_bad>({blocks_for(n, 256), 256}, found, g, unsigned(n));
}
inline void add_squares(double* sum, double* partial, const float* g, std::size_t n) {
    const unsigned blocks = partial_blocks(n);
    const double* const from = partial;
    mpt::launch<square_blocks>({blocks, 256}, partial, g, unsigned(n));
    mpt::launch<sum_partials_kernel<double>>({1, 256}, sum, from, blocks);
}

// Softmax has left probabilities: the loss of each row, and the gradient.
__global__ void row_losses(float* losses, const float* p, const int* targets, int rows, int V) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (row < rows) losses[row] = -logf(p[size_t(row) * size_t(V) + size_t(targets[row])]);
}
__global__ void loss_gradient(float* dx, const float* p, const int* targets, float seed, int V) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x), row = int(blockIdx.y);
    if (i >= V) return;
    const size_t at = size_t(row) * size_t(V) + size_t(i);
    dx[at] = (p[at] - (i == targets[row] ? 1.0f : 0.0f)) * seed;
}
inline void losses_of(float* losses, const float* p, const int* targets, int rows, int V) {
    mpt::launch<row_losses>({blocks_for(size_t(rows), 256), 256}, losses, p, targets, rows, V);
}
inline void gradient_of(float* dx, const float* p, const int* targets, float seed, int rows,
                        int V) {
    mpt::launch<loss_gradient>({dim3(blocks_for(size_t(V), 256), unsigned(rows)), 256}, dx, p,
                               targets, seed, V);
}
