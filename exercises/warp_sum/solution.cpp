// SPDX-License-Identifier: MIT
// A warp's sum by shuffles: chapter 15.
//
// The lanes of a warp read each other's registers: __shfl_xor_sync(mask, x, k) is x of lane (my
// lane xor k). Exchanging with 16, 8, 4, 2, 1 and adding, each lane has the sum of all 32 after
// five rounds, without shared memory and without a barrier.
#include "exercise.hpp"

#include "mpt/kernels/launch.cuh" // __global__, launch, __shfl_xor_sync

using namespace mpt::kernels;

template <class T>
__global__ void sums_kernel(T* out, const T* x) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    T sum = x[i];
    //< shuffles: about 2 lines
    for (int k = 16; k > 0; k /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, k);
    //>
    out[i] = sum;
}

void warp_sums(float* out, const float* x, int n) {
    const unsigned threads = n % 128 == 0 ? 128 : 32;
    mpt::launch<sums_kernel<float>>({unsigned(n) / threads, threads, 0, nullptr}, out, x);
}
