// SPDX-License-Identifier: MIT
#include "theirs/kernels/attention_wmma.cuh"
#include "theirs/kernels/attention_wmma_backward.cuh"
#include "user.cuh"

int main() {
    using namespace theirs::kernels;
    using T = __nv_bfloat16;
    user::buffer<T> q({0, 0, 0, 0}), k({1, 2, 3, 4}), v({1, 2, 3, -4}), out(4);
    user::buffer<T> dout({1, 0, 0, 4}), dq(4), dk(4), dv(4);
    user::buffer<float> lse(2);
    user::buffer<char> scratch(attention_backward_bytes(1, 1, 2));
    attention_backward_args<T> y;
    attention_args<T>& x = y.forward;
    x.q = q.p, x.k = k.p, x.v = v.p, x.out = out.p, x.lse = lse.p;
    x.B = 1, x.Tq = 2, x.Tk = 2, x.heads = 1, x.kv_heads = 1, x.head_dim = 2;
    x.q_stride = x.kv_stride = x.out_stride = 2, x.scale = 1;
    y.dout = dout.p, y.dq = dq.p, y.dk = dk.p, y.dv = dv.p, y.scratch = scratch.p;
    attention_forward_wmma(x, user::stream());
    attention_backward_wmma(y, user::stream());
    // The second query's dout v^T is (8, -16), with mean -4: dS = 1/2 (12, -12).
    return user::same(dq, {0, 0, -12, -12}, 0.01) + user::same(dk, {0, 0, 0, 0}) +
           user::same(dv, {1, 2, 0, 2}, 0.01);
}
