// SPDX-License-Identifier: MIT
// mutant: the barrier stands inside the branch, where half of the threads never come
// fails: no race, no barrier that some threads miss
//< tree
__syncthreads();
for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
        shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
}
