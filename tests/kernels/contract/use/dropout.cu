// SPDX-License-Identifier: MIT
#include "theirs/kernels/dropout.cuh"
#include "user.cuh"

int main() {
    user::buffer<float> x(std::vector<float>(1000, 3)), y(1000);
    theirs::kernels::dropout_args drop;
    drop.p = 0.25f;
    theirs::kernels::dropout(y.p, x.p, drop, 2, 500, user::stream());
    int kept = 0;
    for (float f : y.host()) {
        if (f != 0 && f != 4) return 1; // 3 / (1 - 0.25)
        kept += f == 4;
    }
    std::printf("%d of 1000 kept\n", kept);
    return kept < 700 || kept > 800; // 3.6 standard deviations
}
