// SPDX-License-Identifier: MIT
#include "theirs/kernels/column_sums.cuh"
#include "user.cuh"

int main() {
    user::buffer<float> x({1, 2, 3, 10, 20, 30}), y(3);
    user::buffer<char> scratch(theirs::kernels::column_sums_bytes(2, 3));
    theirs::kernels::column_sums(y.p, x.p, 2, 3, scratch.p, user::stream());
    return user::same(y, {11, 22, 33});
}
