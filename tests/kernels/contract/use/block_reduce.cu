// SPDX-License-Identifier: MIT
#include "theirs/kernels/block_reduce.cuh"
#include "user.cuh"

__global__ void both(float* y, const float* x) {
    const float sum = theirs::kernels::block_sum(x[threadIdx.x]);
    const float most = theirs::kernels::block_max(x[threadIdx.x], 0.0f);
    if (threadIdx.x == 95) y[0] = sum, y[1] = most;
}

int main() {
    std::vector<float> numbers(96, 0.5f);
    numbers[70] = 100;
    user::buffer<float> x(numbers), y(2);
    both<<<1, 96, 0, user::stream()>>>(y.p, x.p);
    return user::same(y, {147.5, 100});
}
