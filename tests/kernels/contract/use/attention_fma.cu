// SPDX-License-Identifier: MIT
#include "theirs/kernels/attention_fma.cuh"
#include "user.cuh"

int main() {
    // Two positions, one head of two; q = 0, so that all keys that are seen weigh the same.
    user::buffer<float> q({0, 0, 0, 0}), k({1, 2, 3, 4}), v({1, 2, 3, -4}), out(4), lse(2);
    theirs::kernels::attention_args<float> x;
    x.q = q.p, x.k = k.p, x.v = v.p, x.out = out.p, x.lse = lse.p;
    x.B = 1, x.Tq = 2, x.Tk = 2, x.heads = 1, x.kv_heads = 1, x.head_dim = 2;
    x.q_stride = x.kv_stride = x.out_stride = 2;
    theirs::kernels::attention_forward_fma(x, user::stream());
    return user::same(out, {1, 2, 2, -1}) + user::same(lse, {0, std::log(2.0)}, 1e-6);
}
