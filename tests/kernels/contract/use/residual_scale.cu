// SPDX-License-Identifier: MIT
#include "theirs/kernels/residual_scale.cuh"
#include "user.cuh"

int main() {
    user::buffer<float> x({1, 2}), branch({10, -20}), out(2), d({1, 3}), dbranch(2), dalpha(1);
    user::buffer<float> alpha(std::vector<float>{0.5f});
    theirs::kernels::scaled_residual_args<float> f;
    f.out = out.p, f.x = x.p, f.branch = branch.p, f.alpha = alpha.p;
    f.samples = 1, f.per_sample = 2;
    theirs::kernels::scaled_residual_forward(f, user::stream());
    if (int wrong = user::same(out, {6, -8})) return wrong;
    user::buffer<char> scratch(theirs::kernels::scaled_residual_backward_bytes(2));
    theirs::kernels::scaled_residual_backward_args<float> b;
    b.dbranch = dbranch.p, b.dalpha = dalpha.p, b.dout = d.p, b.branch = branch.p;
    b.alpha = alpha.p, b.samples = 1, b.per_sample = 2, b.scratch = scratch.p;
    theirs::kernels::scaled_residual_backward(b, user::stream());
    return user::same(dbranch, {0.5, 1.5}) || user::same(dalpha, {-50});
}
