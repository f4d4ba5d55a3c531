// SPDX-License-Identifier: MIT
#include "theirs/kernels/matmul.cuh"
#include "user.cuh"

int main() {
    user::buffer<float> a({1, 2, 3, 4, 5, 6}), b({1, 0, -1, 2, 0.5f, 0}), c(4);
    theirs::kernels::matmul_args<float> x;
    x.c = c.p, x.a = a.p, x.b = b.p;
    x.m = 2, x.n = 2, x.k = 3; // (2,3) by (3,2)
    theirs::kernels::matmul_registers(x, user::stream());
    return user::same(c, {0.5, 4, 2, 10});
}
