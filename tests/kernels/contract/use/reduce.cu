// SPDX-License-Identifier: MIT
#include "theirs/kernels/reduce.cuh"
#include "user.cuh"

int main() {
    user::buffer<float> x(std::vector<float>(10000, 0.1f));
    user::buffer<char> scratch(theirs::kernels::sum_bytes(x.n));
    user::buffer<double> y(1);
    theirs::kernels::sum(y.p, x.p, x.n, scratch.p, user::stream());
    return user::same(y, {10000 * double(0.1f)}, 1e-12);
}
