// SPDX-License-Identifier: MIT
#include "theirs/kernels/adamw.cuh"
#include "user.cuh"

int main() {
    user::buffer<float> p({1, 1}), m({0, 0}), v({0, 0}), g({0.5f, -8});
    user::buffer<__half> weights(2);
    theirs::kernels::adamw_args<__half, float> a;
    a.p = p.p, a.m = m.p, a.v = v.p, a.g = g.p, a.weights = weights.p, a.n = 2;
    // the first step of lr 0.1, beta 0.9 and 0.999: each weight moves by lr
    a.numbers = {1, 0.1f, 0.001f, 0.1f / 0.1f, 1 / std::sqrt(0.001f), 0, 0, 1};
    theirs::kernels::adamw(a, user::stream());
    if (int wrong = user::same(p, {0.9, 1.1}, 1e-6)) return wrong;
    return user::same(weights, {0.9, 1.1}, 0x1p-11);
}
