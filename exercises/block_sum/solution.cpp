// SPDX-License-Identifier: MIT
// The sum over a block by a tree in shared memory: chapter 15.
//
// Each thread brings one number. Half of the threads add the other half's numbers to their own,
// then a quarter, and so on, until thread 0 has the sum: log2(threads) rounds. A number that
// another thread has written may be read only behind a barrier, and a barrier is met by all
// threads or none. Your block has `threads` threads, a power of two.
#include "exercise.hpp"

#include "mpt/kernels/launch.cuh" // __global__, launch, dynamic_shared

using namespace mpt::kernels; // threadIdx, __syncthreads

template <class T>
__global__ void sum_kernel(T* sums, const T* x) {
    T* shared = mpt::dynamic_shared<T>(); // a number a thread
    shared[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    //< tree: add the halves, about 5 lines
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads(); // all threads, also those that have nothing to add
    }
    //>
    if (threadIdx.x == 0) sums[blockIdx.x] = shared[0];
}

void block_sums(float* sums, const float* x, int blocks, int threads) {
    mpt::launch<sum_kernel<float>>(
        {unsigned(blocks), unsigned(threads), unsigned(threads) * sizeof(float), nullptr}, sums, x);
}
