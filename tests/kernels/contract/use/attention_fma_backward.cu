// SPDX-License-Identifier: MIT
#include "theirs/kernels/attention_fma_backward.cuh"
#include "user.cuh"

int main() {
    using namespace theirs::kernels;
    user::buffer<float> q({0, 0, 0, 0}), k({1, 2, 3, 4}), v({1, 2, 3, -4}), out({1, 2, 2, -1});
    user::buffer<float> lse({0, std::log(2.0f)}), dout({1, 0, 0, 4}), dq(4), dk(4), dv(4);
    user::buffer<char> scratch(attention_backward_bytes(1, 1, 2));
    attention_backward_args<float> y;
    attention_args<float>& x = y.forward;
    x.q = q.p, x.k = k.p, x.v = v.p, x.out = out.p, x.lse = lse.p;
    x.B = 1, x.Tq = 2, x.Tk = 2, x.heads = 1, x.kv_heads = 1, x.head_dim = 2;
    x.q_stride = x.kv_stride = x.out_stride = 2, x.scale = 1;
    y.dout = dout.p, y.dq = dq.p, y.dk = dk.p, y.dv = dv.p, y.scratch = scratch.p;
    attention_backward_fma(y, user::stream());
    // The second query's dout v^T is (8, -16), with mean -4: dS = 1/2 (12, -12).
    return user::same(dq, {0, 0, -12, -12}, 1e-6) + user::same(dk, {0, 0, 0, 0}) +
           user::same(dv, {1, 2, 0, 2}, 1e-6);
}
