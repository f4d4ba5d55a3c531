// SPDX-License-Identifier: MIT
#include "theirs/kernels/warp_reduce.cuh"
#include "user.cuh"

__global__ void both(float* y, const float* x) {
    const float sum = theirs::kernels::warp_sum(x[threadIdx.x]);
    const float most = theirs::kernels::warp_max(x[threadIdx.x]);
    if (threadIdx.x == 31) y[0] = sum, y[1] = most;
}

int main() {
    std::vector<float> numbers(32, 0.5f);
    numbers[7] = 100;
    user::buffer<float> x(numbers), y(2);
    both<<<1, 32, 0, user::stream()>>>(y.p, x.p);
    return user::same(y, {115.5, 100});
}
