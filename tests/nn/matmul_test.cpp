// SPDX-License-Identifier: MIT
#include "mpt/nn/matmul.hpp"
#include "checks.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using checks::machine;
using checks::numbers;

namespace {

template <class T>
std::vector<double> exact(int m, int n, int k, matrix<T> a, matrix<T> b, const T* bias,
                          std::vector<double>& size, bool tf32) {
    const auto value = [tf32](T x) {
        if constexpr (std::is_same_v<T, float>)
            return double(tf32 ? round_tf32(x) : x);
        else
            return double(widen(x));
    };
    std::vector<double> c(std::size_t(m * n));
    size.assign(c.size(), 0);
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            const std::size_t e = std::size_t(i * n + j);
            for (int p = 0; p < k; ++p) {
                const double x = value(*a.at(std::size_t(i), std::size_t(p))) *
                                 value(*b.at(std::size_t(p), std::size_t(j)));
                c[e] += x;
                size[e] += std::fabs(x);
            }
            if (bias) c[e] += double(widen(bias[j]));
        }
    return c;
}

// Off by half an ulp of T (the one rounding) and the bound of an fp32 sum (product_test.cpp), in
// ulps of T: at most 0.5 where the sum's bound is taken off.
template <class T>
double worst(int m, int n, int k, int flags, bool tf32 = false, int threads = 2) {
    machine cpu(threads, tf32);
    const bool ta = flags & 1, tb = flags & 2;
    const auto a_data = numbers<T>(std::size_t(m * k), 1),
               b_data = numbers<T>(std::size_t(n * k), 2);
    const auto bias = numbers<T>(std::size_t(n), 3);
    const matrix<T> a{a_data.data(), std::size_t(ta ? m : k), ta};
    const matrix<T> b{b_data.data(), std::size_t(tb ? k : n), tb};
    std::vector<T> c(std::size_t(m * n));
    matmul(cpu.on, c.data(), m, n, k, a, b, flags & 4 ? bias.data() : nullptr);
    std::vector<double> size;
    const auto want = exact(m, n, k, a, b, flags & 4 ? bias.data() : nullptr, size, tf32);
    const double u = std::numeric_limits<wide_t<T>>::epsilon() / 2;
    for (double& s : size) s = (k + 8) * u * (s + 4);
    return checks::worst_ulps(c, want, size);
}

} // namespace

TEST_CASE("a product over tiles is rounded once, in every format") {
    for (int flags = 0; flags < 8; ++flags) {
        for (const auto& s :
             {std::array{1, 1, 1}, {7, 5, 3}, {33, 385, 129}, {513, 191, 31}, {65, 40, 1030}}) {
            CHECK(worst<fp16>(s[0], s[1], s[2], flags) <= 0.501);
            CHECK(worst<bf16>(s[0], s[1], s[2], flags) <= 0.501);
            CHECK(worst<float>(s[0], s[1], s[2], flags) <= 0.501);
        }
        CHECK(worst<double>(31, 29, 17, flags) <= 0.501);
        CHECK(worst<float>(37, 50, 530, flags, true) <= 0.501);
    }
}

TEST_CASE("sabotage: rounding twice, or tf32 where fp32 was promised, is caught") {
    // A second rounding, to 6 bits fewer: as a sum kept in the wrong format would have it.
    machine cpu;
    const int n = 64;
    const auto a = numbers<float>(n * n, 1), b = numbers<float>(n * n, 2);
    std::vector<float> c(n * n);
    cpu.on.tf32 = true;
    matmul<float>(cpu.on, c.data(), n, n, n, {a.data(), n}, {b.data(), n});
    std::vector<double> size;
    const auto want = exact<float>(n, n, n, {a.data(), n}, {b.data(), n}, nullptr, size, false);
    for (double& s : size) s = (n + 8) * 6e-8 * (s + 4);
    CHECK(checks::worst_ulps(c, want, size) > 10);
}

TEST_CASE("tf32: 1.0001 is 1 as an operand, the sum stays fp32") {
    // [[1.0001, 1.0001], ...] times ones: fp32 gives 2.0002, tf32 exactly 2.
    machine cpu(1, true);
    const std::vector<float> x(4, 1.0001f), ones(4, 1.0f);
    std::vector<float> c(4);
    matmul<float>(cpu.on, c.data(), 2, 2, 2, {x.data(), 2}, {ones.data(), 2});
    CHECK(c == std::vector<float>(4, 2.0f));
    cpu.on.tf32 = false;
    matmul<float>(cpu.on, c.data(), 2, 2, 2, {x.data(), 2}, {ones.data(), 2});
    CHECK(c == std::vector<float>(4, 1.0001f + 1.0001f));
}

TEST_CASE("the same bits on 1, 2 and 3 threads") {
    const int m = 600, n = 801, k = 520;
    const auto a = numbers<bf16>(std::size_t(m * k), 1), b = numbers<bf16>(std::size_t(n * k), 2);
    const auto af = numbers<float>(std::size_t(m * k), 1),
               bf = numbers<float>(std::size_t(n * k), 2);
    std::vector<bf16> first;
    std::vector<float> first_f;
    for (const int threads : {1, 2, 3}) {
        machine cpu(threads);
        std::vector<bf16> c(std::size_t(m * n));
        std::vector<float> cf(std::size_t(m * n));
        matmul<bf16>(cpu.on, c.data(), m, n, k, {a.data(), std::size_t(k)},
                     {b.data(), std::size_t(k), true});
        matmul<float>(cpu.on, cf.data(), m, n, k, {af.data(), std::size_t(k)},
                      {bf.data(), std::size_t(k), true});
        if (threads == 1) first = c, first_f = cf;
        CHECK(checks::same_bits(c, first));
        CHECK(checks::same_bits(cf, first_f));
    }
}

TEST_CASE("scratch that is too small is refused with both numbers") {
    memory mem;
    thread_pool pool(1);
    cpu small(pool, mem, 1000);
    std::vector<float> x(4, 1.0f), c(4);
    CHECK_THROWS_WITH_AS(matmul<float>(small, c.data(), 2, 2, 2, {x.data(), 2}, {x.data(), 2}),
                         doctest::Contains("1024 are reserved"), error);
}
