// SPDX-License-Identifier: MIT
// fp8 products by cuBLASLt against the plain loop in double; on a card without fp8, the refusal.
#include "mpt/nn/cublas_fp8.hpp"
#include "mpt/numeric/cast.hpp"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

using namespace mpt;

namespace {

// Normal numbers in codes of F, the largest number of the tensor at the largest code.
template <class F>
struct tensor {
    float scale;
    std::vector<F> code;
    rig::array<std::uint8_t> on_device;
    rig::array<float> scale_on_device;

    tensor(std::size_t n, std::uint32_t which, double deviation)
        : code(n), on_device(n), scale_on_device(1) {
        const auto x = checks::numbers<float>(n, which, deviation);
        float most = 0;
        for (const float v : x) most = std::max(most, std::fabs(v));
        scale = most / F::max;
        for (std::size_t i = 0; i < n; ++i) code[i] = F(x[i] / scale);
        std::vector<std::uint8_t> bits(n);
        for (std::size_t i = 0; i < n; ++i) bits[i] = code[i].bits;
        on_device.write(bits);
        scale_on_device.write({scale});
    }
    const F* data() const { return reinterpret_cast<const F*>(on_device.data()); }
    double at(std::size_t i) const { return double(scale) * double(float(code[i])); }
};

template <class A, class B, class T>
struct problem {
    tensor<A> a;
    tensor<B> b;
    rig::array<T> c;
    fp8_product_args<A, B, T> args;
    cublas blas;
    std::size_t bytes = cublas::workspace_bytes();
    rig::scratch workspace{bytes};

    // Activations of size 3, gradients and weights much smaller.
    problem(int m, int n, int k)
        : a(std::size_t(m) * k, 1, std::is_same_v<A, e4m3> ? 3 : 1e-4),
          b(std::size_t(n) * k, 2, 0.02),
          c(std::size_t(m) * n), args{c.data(),          a.data(), b.data(), a.scale_on_device,
                                      b.scale_on_device, m,        n,        k} {}

    std::vector<rig::host_t<T>> run(const fp8_product_args<A, B, T>& x) {
        fp8_product(blas, x, workspace, bytes, rig::stream());
        return c.read();
    }
    // Products of two codes are exact in fp32. A tensor core cuts each of k addends at 2^-13 of the
    // largest so far at most; then two scales and the rounding to T.
    std::string compare(const std::vector<rig::host_t<T>>& found) const {
        const std::size_t m = std::size_t(args.m), n = std::size_t(args.n), k = std::size_t(args.k);
        std::vector<double> expected(m * n), size(m * n);
        for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = 0; j < n; ++j)
                for (std::size_t p = 0; p < k; ++p) {
                    const double term = a.at(i * k + p) * b.at(j * k + p);
                    expected[i * n + j] += term, size[i * n + j] += std::fabs(term);
                }
        return rig::difference(found, expected, [&](std::size_t i) {
            return (double(k) * 0x1p-13 + 4 * 0x1p-24) * size[i];
        });
    }
};

bool has_fp8() { // also asked where there is no device, before main
    return kernels::device_missing().empty() && device_capability() >= 89;
}

} // namespace

TEST_CASE("a card with fp8 is let pass" * doctest::skip(!has_fp8())) { CHECK_NOTHROW(check_fp8()); }

TEST_CASE("a card without fp8 is told so, with both numbers" * doctest::skip(has_fp8())) {
    problem<e4m3, e4m3, __nv_bfloat16> p(16, 16, 16);
    const int found = device_capability();
    const std::string text = "fp8: this card has capability " + std::to_string(found / 10) + "." +
                             std::to_string(found % 10) + ", wanted 8.9 or newer";
    CHECK_THROWS_WITH(p.run(p.args), doctest::Contains(doctest::String(text.c_str())));
}

template <class T>
void both_ways() {
    for (const auto& [m, n, k] :
         {std::array{16, 16, 16}, {48, 272, 32}, {16, 32, 1600}, {1600, 16, 48}, {128, 144, 256}}) {
        problem<e4m3, e4m3, T> forward(m, n, k);
        CHECK(forward.compare(forward.run(forward.args)) == "");
        problem<e5m2, e4m3, T> backward(m, n, k); // gradients of 1e-4: with their scale alone
        CHECK(backward.compare(backward.run(backward.args)) == "");
    }
}
TEST_CASE("weights and activations, gradients and weights" * doctest::skip(!has_fp8())) {
    both_ways<float>();
    both_ways<__half>();
    both_ways<__nv_bfloat16>();
}

TEST_CASE("the comparison can fail: scales, operands, sizes" * doctest::skip(!has_fp8())) {
    problem<e4m3, e4m3, float> p(48, 48, 64);
    CHECK(p.compare(p.run(p.args)) == "");
    for (int wrong = 0; wrong < 4; ++wrong) {
        auto x = p.args;
        if (wrong == 0) x.a_scale = p.args.b_scale;
        if (wrong == 1) x.b_scale = p.args.a_scale;
        if (wrong == 2) x.a = p.args.b;
        if (wrong == 3) x.k = 48;
        CAPTURE(wrong);
        CHECK(p.compare(p.run(x)) != "");
    }
}

TEST_CASE("what fp8 has no kernels for is refused by name" * doctest::skip(!has_fp8())) {
    problem<e4m3, e4m3, float> p(32, 32, 32);
    auto x = p.args;
    x.m = 31;
    CHECK_THROWS_WITH(p.run(x), doctest::Contains("fp8: a product 31 x 32 x 32; wanted are"));
    x = p.args, x.a += 1, x.m = 16;
    CHECK_THROWS_WITH(p.run(x), doctest::Contains("fp8: an array does not lie on 16 bytes"));
    x = p.args, x.b_scale = nullptr;
    CHECK_THROWS_WITH(p.run(x), doctest::Contains("fp8: an operand without its scale"));
}
