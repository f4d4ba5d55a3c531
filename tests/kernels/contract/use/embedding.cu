// SPDX-License-Identifier: MIT
#include "theirs/kernels/embedding.cuh"
#include "user.cuh"

int main() {
    using namespace theirs::kernels;
    const int B = 1, T = 3, C = 2, V = 4;
    user::buffer<float> wte({0, 0, 10, 11, 20, 21, 30, 31}), wpe({1, 2, 3, 4, 5, 6}), y(6);
    user::buffer<int> tokens({2, 1, 2});
    embedding_forward<float>({y.p, tokens.p, wte.p, wpe.p, B, T, C, V}, user::stream());
    if (int wrong = user::same(y, {21, 23, 13, 15, 25, 27})) return wrong;
    user::buffer<float> dy({1, 2, 3, 4, 5, 6}), dwte({100, 0, 0, 0, 0, 0, 0, 0}), dwpe(6);
    user::buffer<char> scratch(embedding_backward_bytes(B, T));
    embedding_backward<float>({dwte.p, dwpe.p, dy.p, tokens.p, B, T, C, V, scratch.p},
                              user::stream());
    if (int wrong = user::same(dwte, {100, 0, 3, 4, 6, 8, 0, 0})) return wrong;
    return user::same(dwpe, {1, 2, 3, 4, 5, 6});
}
