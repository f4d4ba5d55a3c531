// SPDX-License-Identifier: MIT
// mutant: the loop ends one round early
// fails: each block has its sum
//< tree
__syncthreads();
for (unsigned half = blockDim.x / 2; half > 1; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
}
