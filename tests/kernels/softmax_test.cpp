// SPDX-License-Identifier: MIT
#include "mpt/kernels/softmax.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

using namespace rig;

namespace {

struct shape {
    int rows, columns;
};
const shape shapes[] = {{1, 1},   {3, 31},  {33, 33},  {257, 7}, {5, 257},
                        {2, 1600}, {3, 1601}, {2, 5003}, {0, 5},  {5, 0}};

struct exact { // in fp64
    std::vector<double> y, slack;
};

// e^d of fp32 is off by 2 ulp (expf, CUDA's table), d itself, rounded, by |d| 2^-24: the result by
// (|d| + 4) 2^-24 of itself. The sum of n terms, all positive, adds n / threads + 10 roundings, and
// a rescaling (4 each) at most as many: with a thread a row n of them. Then a division, a product.
template <class H>
exact definition(const std::vector<H>& x, const shape& s, double terms) {
    exact e{std::vector<double>(x.size()), std::vector<double>(x.size())};
    const std::size_t n = std::size_t(s.columns);
    for (std::size_t r = 0; r < std::size_t(s.rows); ++r) {
        double most = -std::numeric_limits<double>::infinity(), sum = 0, depth = 0;
        for (std::size_t i = 0; i < n; ++i)
            most = std::max(most, double(mpt::widen(x[r * n + i])));
        for (std::size_t i = 0; i < n; ++i)
            sum += std::exp(double(mpt::widen(x[r * n + i])) - most);
        for (std::size_t i = 0; i < n; ++i) { // mean |d|, as the sum weighs it
            const double d = double(mpt::widen(x[r * n + i])) - most;
            if (std::isfinite(d)) depth += std::exp(d) / sum * -d;
        }
        for (std::size_t i = 0; i < n; ++i) {
            const double d = double(mpt::widen(x[r * n + i])) - most;
            e.y[r * n + i] = std::isfinite(most) ? std::exp(d) / sum : 0;
            const double roundings = (std::isfinite(d) ? -d : 0) + depth + 8 + terms * 5 + 10 + 2;
            e.slack[r * n + i] = e.y[r * n + i] * roundings * 0x1p-24 + 0x1p-126;
        }
    }
    return e;
}

// Below the smallest normal number a result may be flushed or rounded: 2^-126 above.
template <class T, class F>
void forward_is_right(F run, bool by_threads) {
    using H = host_t<T>;
    for (const shape& s : shapes)
        for (const std::size_t offset : {0, 1}) {
            const std::size_t n = std::size_t(s.rows) * std::size_t(s.columns);
            auto x = checks::numbers<H>(n, 1, 8);
            if (n > 40) x[n / 3] = mpt::narrow<H>(-INFINITY); // a masked one
            const double terms = by_threads         ? s.columns
                                 : s.columns <= 1024 ? s.columns / 32 + 17
                                                     : s.columns / 128 + 17;
            const exact e = definition(x, s, terms);
            const array<T> on(x, offset);
            array<T> y(n, 0);
            run(y.data(), static_cast<const T*>(on.data()), s);
            CHECK(difference(y.read(), e.y, [&](std::size_t i) { return e.slack[i]; }) == "");
            run(on.data(), static_cast<const T*>(on.data()), s); // in place
            CHECK(difference(on.read(), e.y, [&](std::size_t i) { return e.slack[i]; }) == "");
        }
}

} // namespace

TEST_CASE_TEMPLATE("versions 1 and 2, a thread a row", T, float, __half, __nv_bfloat16) {
    forward_is_right<T>(
        [](T* y, const T* x, const shape& s) {
            softmax_naive<T>(y, x, s.rows, s.columns, stream());
        },
        true);
    forward_is_right<T>(
        [](T* y, const T* x, const shape& s) {
            softmax_online<T>(y, x, s.rows, s.columns, stream());
        },
        true);
}

TEST_CASE_TEMPLATE("versions 3 and 4, a warp or a block a row", T, float, __half, __nv_bfloat16) {
    forward_is_right<T>(
        [](T* y, const T* x, const shape& s) {
            softmax_forward<T>(y, x, s.rows, s.columns, stream());
        },
        false);
}

TEST_CASE("large numbers, masked rows, NaN") {
    for (const int columns : {33, 1601}) {
        const std::size_t n = std::size_t(columns);
        std::vector<float> x = checks::numbers<float>(4 * n, 2, 1);
        for (std::size_t i = 0; i < n; ++i) {
            x[i] += 3e4f;                // e^x is infinite
            x[n + i] = -INFINITY;        // nothing to choose from
            x[2 * n + i] = i == 7 ? 2.0f : -INFINITY;
        }
        x[3 * n + 5] = std::nanf("");
        const array<float> on(x);
        array<float> y(x.size());
        softmax_forward<float>(y, on, 4, columns, stream());
        const auto found = y.read();
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) {
            sum += double(found[i]);
            CHECK(found[n + i] == 0.0f);
            CHECK(found[2 * n + i] == (i == 7 ? 1.0f : 0.0f));
            CHECK(std::isnan(found[3 * n + i]));
        }
        CHECK(std::fabs(sum - 1) < 1e-5);
    }
}

TEST_CASE_TEMPLATE("backward", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const shape& s : shapes)
        for (const std::size_t offset : {0, 1}) {
            const std::size_t n = std::size_t(s.columns), all = std::size_t(s.rows) * n;
            const auto logits = checks::numbers<H>(all, 3, 2);
            const exact e = definition(logits, s, 0);
            std::vector<H> y(all);
            for (std::size_t i = 0; i < all; ++i) y[i] = mpt::narrow<H>(float(e.y[i]));
            const auto dy = checks::numbers<H>(all, 4);
            std::vector<double> wanted(all), slack(all);
            for (std::size_t r = 0; r < std::size_t(s.rows); ++r) {
                double dot = 0, size = 0;
                for (std::size_t i = r * n; i < (r + 1) * n; ++i) {
                    dot += double(mpt::widen(y[i])) * double(mpt::widen(dy[i]));
                    size += std::fabs(double(mpt::widen(y[i])) * double(mpt::widen(dy[i])));
                }
                for (std::size_t i = r * n; i < (r + 1) * n; ++i) {
                    const double p = double(mpt::widen(y[i])), d = double(mpt::widen(dy[i]));
                    wanted[i] = p * (d - dot);
                    // the dot's n / 32 + 10 roundings of products and sums, then three
                    slack[i] = p * ((double(n) / 32 + 12) * size + 3 * (std::fabs(d) + size)) *
                               0x1p-24;
                }
            }
            const array<T> on_y(y, offset), on_dy(dy, offset);
            array<T> dx(all);
            softmax_backward<T>(dx, on_dy, on_y, s.rows, s.columns, stream());
            const auto bound = [&](std::size_t i) { return slack[i]; };
            CHECK(difference(dx.read(), wanted, bound) == "");
            softmax_backward<T>(on_dy.data(), on_dy, on_y, s.rows, s.columns, stream());
            CHECK(difference(on_dy.read(), wanted, bound) == "");
            const array<T> again(dy, offset);
            softmax_backward<T>(on_y.data(), again, on_y, s.rows, s.columns, stream());
            CHECK(difference(on_y.read(), wanted, bound) == "");
        }
}

TEST_CASE("the same bits in any order of threads") {
    for (const int columns : {33, 1601}) {
        const auto x = checks::numbers<float>(5 * std::size_t(columns), 6, 4);
        CHECK(in_all_orders([&] {
                  const array<float> on(x);
                  array<float> y(x.size()), dx(x.size());
                  softmax_forward<float>(y, on, 5, columns, stream());
                  softmax_backward<float>(dx, on, y, 5, columns, stream());
                  auto both = y.read();
                  for (const float d : dx.read()) both.push_back(d);
                  return both;
              }) == "");
    }
}

TEST_CASE("the bounds bite: a maximum that is not taken off is seen") { // sabotage
    const std::vector<float> x{90, 91, 92}, share{0.09003057f, 0.24472847f, 0.66524096f};
    const float without[] = {std::exp(90.0f), std::exp(91.0f), std::exp(92.0f)};
    const exact e = definition(x, {1, 3}, 3);
    const auto bound = [&](std::size_t i) { return e.slack[i]; };
    const float sum = without[0] + without[1] + without[2];
    CHECK(difference(std::vector<float>{without[0] / sum, without[1] / sum, without[2] / sum}, e.y,
                     bound) != "");
    CHECK(difference(share, e.y, bound) == "");
    // one part in 2^18 too much: far below what 16 bits would show
    CHECK(difference(std::vector<float>{share[0], share[1] * (1 + 0x1p-18f), share[2]}, e.y,
                     bound) != "");
}
