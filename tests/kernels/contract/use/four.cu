// SPDX-License-Identifier: MIT
#include "theirs/kernels/four.cuh"
#include "user.cuh"

__global__ void three_of_four(__nv_bfloat16* y, const __nv_bfloat16* x) {
    float four[4];
    theirs::kernels::load_four(four, x, 3, theirs::kernels::aligned_to_four(x, 4));
    theirs::kernels::store_four(y, four, 4, true);
}

int main() {
    user::buffer<__nv_bfloat16> x({1.0f, 2.0f, 3.0f}), y(4);
    three_of_four<<<1, 1, 0, user::stream()>>>(y.p, x.p);
    return user::same(y, {1, 2, 3, 0});
}
