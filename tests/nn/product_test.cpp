// SPDX-License-Identifier: MIT
// The product on one thread: the blocked loop, and CBLAS where it is linked (nn.product_cblas).
#include "mpt/nn/product.hpp"
#include "checks.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using checks::numbers;

namespace {

// A product in fp64 beside sum |a||b|, by which its error is measured.
struct reference {
    std::vector<double> c, size;
};
template <class W>
reference multiply(int m, int n, int k, matrix<W> a, matrix<W> b) {
    reference r{std::vector<double>(std::size_t(m * n)), std::vector<double>(std::size_t(m * n))};
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j)
            for (int p = 0; p < k; ++p) {
                const double x = double(*a.at(std::size_t(i), std::size_t(p)));
                const double y = double(*b.at(std::size_t(p), std::size_t(j)));
                r.c[std::size_t(i * n + j)] += x * y;
                r.size[std::size_t(i * n + j)] += std::fabs(x * y);
            }
    return r;
}

// A sum of k products in W, in any order, with or without FMA, is off by at most k u / (1 - k u)
// times sum |a||b|, u half an ulp of 1 (Higham 2002, section 3.1). One more for the fp64 sum's own.
template <class W, class Product>
double worst_over_bound(Product product) {
    double worst = 0;
    const int shapes[][3] = {{1, 1, 1},      {1, 7, 3},       {5, 1, 1},
                             {13, 17, 19},   {12, 32, 256},   {97, 33, 257},
                             {96, 512, 256}, {101, 515, 300}, {3, 2, 0}};
    for (const auto& s : shapes)
        for (int flags = 0; flags < 8; ++flags) {
            const int m = s[0], n = s[1], k = s[2];
            const bool ta = flags & 1, tb = flags & 2, add = flags & 4;
            const std::size_t gap = 3; // rows lie further apart than they are long
            const std::size_t a_stride = std::size_t(ta ? m : k) + gap;
            const std::size_t b_stride = std::size_t(tb ? k : n) + gap,
                              c_stride = std::size_t(n) + 2;
            const auto a_data = numbers<W>(a_stride * std::size_t(std::max(m, k) + 1), 1);
            const auto b_data = numbers<W>(b_stride * std::size_t(std::max(n, k) + 1), 2);
            const matrix<W> a{a_data.data(), a_stride, ta}, b{b_data.data(), b_stride, tb};
            auto c = numbers<W>(c_stride * std::size_t(m), 3);
            const auto before = c;
            std::vector<W> room(product_scratch<W>());
            product(m, n, k, a, b, c.data(), c_stride, add, room.data());
            const reference r = multiply(m, n, k, a, b);
            const double u = std::numeric_limits<W>::epsilon() / 2;
            for (int i = 0; i < m; ++i)
                for (std::size_t j = 0; j < c_stride; ++j) {
                    const std::size_t at = std::size_t(i) * c_stride + j;
                    if (j >= std::size_t(n)) { // between the rows nothing is written
                        if (c[at] != before[at]) worst = 1e9;
                        continue;
                    }
                    const std::size_t e = std::size_t(i * n) + j;
                    const double was = add ? double(before[at]) : 0;
                    const double bound = (k + 3) * u * (r.size[e] + std::fabs(was)) + 1e-300;
                    worst = std::max(worst, std::fabs(double(c[at]) - was - r.c[e]) / bound);
                }
        }
    return worst;
}

} // namespace

TEST_CASE("a product is right for every shape, flag and stride, to the bound of its sums") {
    CHECK(worst_over_bound<float>(product<float>) <= 1);
    CHECK(worst_over_bound<double>(product<double>) <= 1);
    CHECK(worst_over_bound<float>(blocked::product<float>) <= 1);
}

TEST_CASE("sabotage: a product that forgets its last k, or adds where it should not, is caught") {
    const auto short_sum = [](int m, int n, int k, auto a, auto b, float* c, std::size_t stride,
                              bool add, float* room) {
        product(m, n, std::max(k - 1, 0), a, b, c, stride, add, room);
    };
    const auto always_adds = [](int m, int n, int k, auto a, auto b, float* c, std::size_t stride,
                                bool,
                                float* room) { product(m, n, k, a, b, c, stride, true, room); };
    CHECK(worst_over_bound<float>(short_sum) > 100);
    CHECK(worst_over_bound<float>(always_adds) > 100);
}

TEST_CASE("the start-up line says what does the products") { CHECK(!product_backend().empty()); }
