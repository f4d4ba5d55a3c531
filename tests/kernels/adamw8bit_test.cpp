// SPDX-License-Identifier: MIT
#include "mpt/kernels/adamw8bit.cuh"
#include "mpt/numeric/dynamic_map.hpp"
#include "mpt/train/adamw.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <type_traits>

using namespace rig;

namespace {

adamw_numbers numbers_at(long t) {
    struct {
        double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
    } hyper;
    const auto c = mpt::numbers_of<float>(hyper, 1.0 / 512, 0.01, t);
    return {c.factor, c.keep1, c.keep2, c.rate, c.correction, c.eps, 0.001f, std::uint32_t(t)};
}

std::vector<float> entries(const std::array<float, 256>& map) { return {map.begin(), map.end()}; }

template <class H>
struct state {
    std::size_t n, cell, blocks;
    std::vector<float> p, m_absmax, v_absmax;
    std::vector<H> weights, g;
    std::vector<unsigned char> m_codes, v_codes;

    state(std::size_t size, std::size_t in_cell)
        : n(size), cell(in_cell), blocks(code_blocks(n, cell)), p(checks::numbers<float>(n, 1)),
          m_absmax(blocks), v_absmax(blocks), weights(n), g(n),
          m_codes(n, mpt::signed_map.zero), v_codes(n, mpt::unsigned_map.zero) {
        for (std::size_t i = 0; i < n; ++i) weights[i] = mpt::narrow<H>(p[i]);
    }
    void gradients(std::uint32_t which) { // of very unlike sizes, some zero
        const auto size = checks::numbers<double>(n, which + 100, 5);
        const auto sign = checks::numbers<double>(n, which, 100);
        for (std::size_t i = 0; i < n; ++i)
            g[i] = mpt::narrow<H>(
                float(i % 11 == 3 ? 0 : sign[i] * std::exp2(std::min(size[i], 7.0))));
    }
    // Block by block, with the loops of train/adam8bit.hpp.
    void step(const adamw_numbers& c, bool master, std::uint64_t seed, std::uint64_t first) {
        const mpt::adam_numbers<float> numbers{c.factor, c.keep1, c.keep2,
                                               c.rate,   c.correction, c.eps};
        for (std::size_t i = 0, k, block = 0; i < n; i += k, ++block) {
            k = std::min(n - i, i == 0 ? 256 - cell : std::size_t(256));
            float m[256], v[256], wide[256], direction[256];
            mpt::dequantize_block(mpt::signed_map, &m_codes[i], m_absmax[block], m, k);
            mpt::dequantize_block(mpt::unsigned_map, &v_codes[i], v_absmax[block], v, k);
            mpt::cast(&g[i], wide, k);
            if (!master) mpt::cast(&weights[i], &p[i], k);
            mpt::update_moments(m, v, wide, k, numbers);
            mpt::directions(direction, m, v, k, numbers);
            mpt::adamw_parts::move(&p[i], direction, k, c.rate, c.decay);
            m_absmax[block] = mpt::quantize_block(mpt::signed_map, m, &m_codes[i], k);
            v_absmax[block] = mpt::quantize_block(mpt::unsigned_map, v, &v_codes[i], k);
            if constexpr (!std::is_same_v<H, float>)
                if (!master) {
                    mpt::cast_stochastic(&p[i], &weights[i], k, seed, c.t, first + i);
                    continue;
                }
            mpt::narrow(&p[i], &weights[i], k);
        }
    }
};

template <class T>
struct on_device {
    array<float> p, m_absmax, v_absmax, signed_map, unsigned_map;
    array<T> weights, g;
    array<unsigned char> m_codes, v_codes;
    array<unsigned> not_finite;
    explicit on_device(const state<host_t<T>>& s)
        : p(s.p), m_absmax(s.m_absmax), v_absmax(s.v_absmax),
          signed_map(entries(mpt::signed_map.value)),
          unsigned_map(entries(mpt::unsigned_map.value)), weights(s.weights), g(s.g),
          m_codes(s.m_codes), v_codes(s.v_codes), not_finite(std::vector<unsigned>{0}) {}
    adamw8bit_args<T, T> args(std::size_t cell, bool master) const {
        adamw8bit_args<T, T> a;
        a.rest.p = master ? p.data() : nullptr;
        a.rest.g = g;
        a.rest.weights = weights;
        a.rest.n = p.size();
        a.m_codes = m_codes;
        a.v_codes = v_codes;
        a.m_absmax = m_absmax;
        a.v_absmax = v_absmax;
        a.signed_map = signed_map;
        a.unsigned_map = unsigned_map;
        a.cell = cell;
        a.not_finite = not_finite;
        return a;
    }
};

template <class T>
std::string difference_of(const on_device<T>& d, const state<host_t<T>>& s, bool master) {
    return difference(d.m_codes.read(), s.m_codes) + difference(d.v_codes.read(), s.v_codes) +
           difference(d.m_absmax.read(), s.m_absmax) + difference(d.v_absmax.read(), s.v_absmax) +
           difference(d.weights.read(), s.weights) +
           (master ? difference(d.p.read(), s.p) : "");
}

} // namespace

TEST_CASE_TEMPLATE("the bits of the plain loop: codes, absmax, weights", T, float, __half,
                   __nv_bfloat16) {
    for (const bool master : {true, false})
        for (const std::size_t n : {1, 31, 33, 257, 1600, 1601})
            for (const std::size_t cell : {0, 7, 255}) {
                if (!master && std::is_same_v<T, float>) continue;
                state<host_t<T>> s(n, cell);
                on_device<T> d(s);
                for (long t = 1; t <= 3; ++t) {
                    s.gradients(std::uint32_t(20 + t));
                    d.g.write(s.g);
                    auto a = d.args(cell, master);
                    a.rest.numbers = numbers_at(t);
                    a.rest.first = 777;
                    a.rest.rounding_seed = 99;
                    adamw8bit<T, T>(a, stream());
                    s.step(numbers_at(t), master, 99, 777);
                }
                CHECK(difference_of(d, s, master) == "");
                CHECK(d.not_finite.read()[0] == 0);
            }
}

namespace {

__global__ void codes_kernel(unsigned char* of_signed, unsigned char* of_unsigned, const float* q,
                             const float* signed_map, const float* unsigned_map, int n) {
    __shared__ code_table a, b;
    read_map(a, signed_map, 127, 128);
    read_map(b, unsigned_map, 0, 255);
    for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) {
        of_signed[i] = signed_code(a, q[i]);
        of_unsigned[i] = unsigned_code(b, q[i]);
    }
}

} // namespace

TEST_CASE("codes: those of the table of buckets, around every middle and entry") {
    std::vector<float> q{0, -0.0f, 1, -1, 0.999f, -0.997f, 1e-7f, -1e-7f, 1e-38f, -1e-38f};
    const auto around = [&](float x) {
        for (int k = -2; k <= 2; ++k) {
            const float near = mpt::float_of(mpt::bits_of(x) + unsigned(k));
            q.push_back(near);
            q.push_back(-near);
        }
    };
    for (int k = 0; k < 255; ++k) {
        const float a = std::fabs(mpt::unsigned_map.value[std::size_t(k)]),
                    b = mpt::unsigned_map.value[std::size_t(k) + 1];
        around((a + b) / 2);
        around(b);
        if (k < 127) continue;
        const float c = mpt::signed_map.value[std::size_t(k)],
                    e = mpt::signed_map.value[std::size_t(k) + 1];
        around((c + e) / 2);
        around(e);
    }
    const int n = int(q.size());
    const array<float> on(q), s(entries(mpt::signed_map.value)),
        u(entries(mpt::unsigned_map.value));
    array<unsigned char> of_signed(q.size()), of_unsigned(q.size());
    using pointer = const float*;
    mpt::launch<codes_kernel>({1, 256, 0, stream()}, of_signed.data(), of_unsigned.data(),
                              pointer(on.data()), pointer(s.data()), pointer(u.data()), n);
    std::vector<unsigned char> a, b;
    for (const float x : q) {
        a.push_back(static_cast<unsigned char>(mpt::signed_map.code(x, true)));
        b.push_back(static_cast<unsigned char>(mpt::unsigned_map.code(x, true)));
    }
    CHECK(difference(of_signed.read(), a) == "");
    CHECK(difference(of_unsigned.read(), b) == "");
}

TEST_CASE("found_inf: nothing changes; a block that is not finite stays, and is counted") {
    state<mpt::bf16> s(1601, 0);
    on_device<__nv_bfloat16> d(s);
    s.gradients(3);
    s.g[300] = mpt::bf16(3e25f); // times 1/512: the square is infinite
    d.g.write(s.g);
    const array<float> found_inf(std::vector<float>{1.0f});
    auto a = d.args(0, true);
    a.rest.numbers = numbers_at(1);
    a.rest.found_inf = found_inf;
    adamw8bit<__nv_bfloat16, __nv_bfloat16>(a, stream());
    CHECK(difference_of(d, s, true) == "");
    a.rest.found_inf = nullptr;
    adamw8bit<__nv_bfloat16, __nv_bfloat16>(a, stream());
    CHECK(d.not_finite.read()[0] == 1);
    const auto p = d.p.read();
    for (std::size_t i = 0; i < p.size(); ++i)
        CHECK((p[i] == s.p[i]) == (i >= 256 && i < 512)); // the others have moved
}

TEST_CASE("the same bits in any order of threads") {
    CHECK(in_all_orders([] {
              state<mpt::bf16> s(1601, 7);
              s.gradients(5);
              on_device<__nv_bfloat16> d(s);
              auto a = d.args(7, false);
              a.rest.numbers = numbers_at(1);
              adamw8bit<__nv_bfloat16, __nv_bfloat16>(a, stream());
              auto codes = d.m_codes.read();
              for (const unsigned char c : d.v_codes.read()) codes.push_back(c);
              for (const mpt::bf16 w : d.weights.read())
                  codes.push_back(static_cast<unsigned char>(w.bits & 0xFF));
              return codes;
          }) == "");
}
