// SPDX-License-Identifier: MIT
#include "theirs/kernels/matmul_wmma.cuh"
#include "user.cuh"

int main() {
    user::buffer<__half> a({1, 2, 3, 4, 5, 6}), w({1, -1, 0.5f, 0, 2, 0}), bias({10, 20}), c(4);
    theirs::kernels::matmul_args<__half> x;
    x.c = c.p, x.a = a.p, x.b = w.p, x.bias = bias.p;
    x.m = 2, x.n = 2, x.k = 3, x.b_transposed = true; // (2,3) by (2,3)^T
    theirs::kernels::matmul(x, user::stream());
    return user::same(c, {10.5, 24, 12, 30});
}
