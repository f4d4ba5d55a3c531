// SPDX-License-Identifier: MIT
#include "mpt/kernels/gelu.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

using namespace rig;

namespace {

double exact_switch(double x) {
    return 1 / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}
double exact_slope(double x) {
    const double s = exact_switch(x);
    return s + x * s * (1 - s) * 1.5957691216057308 * (1 + 3 * 0.044715 * x * x);
}
// 2u in fp32 is off by 5 roundings of 2^-24; that moves e^-2u by as much of itself times |2u|, and
// s by (1 - s) of that. Then 2 ulp of expf, a sum, a division, a product.
double roundings(double x) {
    const double twice_u = 1.5957691216057308 * (std::fabs(x) + 0.044715 * std::fabs(x * x * x));
    return (5 * twice_u + 4) * (1 - exact_switch(x)) + 3;
}

template <class H>
std::vector<H> inputs(std::size_t n) { // most of size 3, some far out
    auto x = checks::numbers<H>(n, 1, 3);
    const float far[] = {0, -0.0f, 12, -12, 40, -40, 1e4f, -1e4f, 1e-7f};
    for (std::size_t i = 0; i + 20 < n && i < 9; ++i) x[i + 11] = mpt::narrow<H>(far[i]);
    return x;
}

} // namespace

TEST_CASE_TEMPLATE("forward and backward", T, float, __half, __nv_bfloat16) {
    using H = host_t<T>;
    for (const std::size_t n : {0, 1, 31, 33, 257, 1600, 1601})
        for (const std::size_t offset : {0, 1}) {
            const auto x = inputs<H>(n), dy = checks::numbers<H>(n, 2);
            std::vector<double> y(n), y_slack(n), dx(n), dx_slack(n);
            for (std::size_t i = 0; i < n; ++i) {
                const double v = double(mpt::widen(x[i])), d = double(mpt::widen(dy[i]));
                y[i] = v * exact_switch(v);
                y_slack[i] = std::fabs(y[i]) * roundings(v) * 0x1p-24 + 0x1p-126;
                dx[i] = d * exact_slope(v);
                // both terms of the slope, the second with s twice and 6 products more
                const double s = exact_switch(v), second = exact_slope(v) - s;
                dx_slack[i] = std::fabs(d) *
                                  (s * roundings(v) +
                                   std::fabs(second) * (roundings(v) + roundings(-v) + 8) + 2 * s) *
                                  0x1p-24 + 0x1p-126;
                // 1 - s has an absolute error of 2^-25 even where it is near 0
                dx_slack[i] += std::fabs(d * v) * s * 1.6 * (1 + 0.134 * v * v) *
                               (std::fabs(v) < 41 ? 0x1p-24 : 0);
            }
            const array<T> on(x, offset), on_dy(dy, offset);
            array<T> out(n, offset), gradient(n, 0);
            gelu_forward<T>(out, on, n, stream());
            CHECK(difference(out.read(), y, [&](std::size_t i) { return y_slack[i]; }) == "");
            gelu_backward<T>(gradient, on_dy, on, n, stream());
            const auto bound = [&](std::size_t i) { return dx_slack[i]; };
            CHECK(difference(gradient.read(), dx, bound) == "");
            gelu_backward<T>(on_dy.data(), on_dy, on, n, stream());
            CHECK(difference(on_dy.read(), dx, bound) == "");
            const array<T> again(dy, offset), both(x, offset); // in place of x, and forward
            gelu_backward<T>(both.data(), again, both, n, stream());
            CHECK(difference(both.read(), dx, bound) == "");
            gelu_forward<T>(on.data(), on, n, stream());
            CHECK(difference(on.read(), y, [&](std::size_t i) { return y_slack[i]; }) == "");
        }
}

TEST_CASE("infinity and NaN") {
    const std::vector<float> x{INFINITY, std::nanf(""), 3e38f, -3e38f};
    const array<float> on(x), dy(std::vector<float>{1, 1, 1, 1});
    array<float> y(4), dx(4);
    gelu_forward<float>(y, on, 4, stream());
    gelu_backward<float>(dx, dy, on, 4, stream());
    const auto found = y.read(), slope = dx.read();
    CHECK(found[0] == INFINITY);
    CHECK(std::isnan(found[1]));
    CHECK(found[2] == 3e38f);
    CHECK(found[3] == 0.0f);
    CHECK(slope[0] == 1.0f);
    CHECK(std::isnan(slope[1]));
    CHECK(slope[2] == 1.0f);
    CHECK(slope[3] == 0.0f);
}
