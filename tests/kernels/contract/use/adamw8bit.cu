// SPDX-License-Identifier: MIT
#include "theirs/kernels/adamw8bit.cuh"
#include "user.cuh"

int main() {
    std::vector<float> map(256), positive(256);
    for (size_t i = 0; i < 256; ++i) {
        map[i] = float(int(i) - 127) / 128;
        positive[i] = float(i) / 255;
    }
    user::buffer<float> p({1, 1}), g({0.5f, -0.5f}), weights(2);
    user::buffer<float> signed_map(map), unsigned_map(positive);
    user::buffer<float> m_absmax(std::vector<float>{0}), v_absmax(std::vector<float>{0});
    user::buffer<std::uint8_t> m({127, 127}), v({0, 0});
    theirs::kernels::adamw8bit_args<float, float> a;
    a.rest.p = p.p, a.rest.g = g.p, a.rest.weights = weights.p, a.rest.n = 2;
    a.rest.numbers = {1, 0.1f, 0.001f, 0.1f / 0.1f, 1 / std::sqrt(0.001f), 0, 0, 1};
    a.m_codes = m.p, a.v_codes = v.p, a.m_absmax = m_absmax.p, a.v_absmax = v_absmax.p;
    a.signed_map = signed_map.p, a.unsigned_map = unsigned_map.p;
    theirs::kernels::adamw8bit(a, user::stream());
    if (int wrong = user::same(p, {0.9, 1.1}, 1e-6)) return wrong;
    if (int wrong = user::same(m, {255, 0})) return wrong; // + and - the largest
    return user::same(m_absmax, {0.05}, 1e-6);
}
