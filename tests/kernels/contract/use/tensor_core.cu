// SPDX-License-Identifier: MIT
#include "theirs/kernels/tensor_core.cuh"
#include "user.cuh"

__global__ void product(float* c, const __half* a, const __half* b) {
    using namespace theirs::kernels;
    a_fragment<__half, false> x;
    b_fragment<__half, false> y;
    c_fragment<__half> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::load_matrix_sync(x, a, 16);
    wmma::load_matrix_sync(y, b, 16);
    wmma::mma_sync(sum, x, y, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

int main() {
    user::buffer<__half> a(std::vector<__half>(256, __half(1)));
    user::buffer<__half> b(std::vector<__half>(256, __half(2)));
    user::buffer<float> c(256);
    product<<<1, 32, 0, user::stream()>>>(c.p, a.p, b.p);
    return user::same(c, std::vector<double>(256, 33));
}
