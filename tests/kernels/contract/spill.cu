// SPDX-License-Identifier: MIT
// sabotage for registers.sh: 96 live values, and room for 32 registers a thread.
#include "mpt/kernels/launch.cuh"

__global__ void __launch_bounds__(1024, 2) hungry(float* y, const float* x, int n) {
    float kept[96];
#pragma unroll
    for (int i = 0; i < 96; ++i) kept[i] = x[i * n + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; ++i) y[i * n + threadIdx.x] = kept[i] * kept[(i * 7 + 1) % 96];
}
