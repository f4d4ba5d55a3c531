// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/linear.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

template <class T>
struct layer {
    linear_shape s;
    std::vector<T> x, w, bias, dy, y, dx, dw, dbias;
    explicit layer(linear_shape shape)
        : s(shape), x(numbers<T>(size(s.rows, s.in), 1)), w(numbers<T>(size(s.out, s.in), 2)),
          bias(numbers<T>(size(s.out, 1), 3)), dy(numbers<T>(size(s.rows, s.out), 4)),
          y(dy.size()), dx(x.size()), dw(w.size()), dbias(bias.size()) {}
    static std::size_t size(int a, int b) { return std::size_t(a) * std::size_t(b); }

    void run(machine& m) {
        forward(m);
        linear_backward<T>(m.on, span(dx), span(dw), span(dbias), span(dy), span(x), span(w), s);
    }
    void forward(machine& m) { linear_forward<T>(m.on, span(y), span(x), span(w), span(bias), s); }
};

const linear_shape shapes[] = {{1, 1, 1}, {3, 5, 7}, {64, 17, 2}, {70, 3, 300}, {2, 600, 3}};

// One element of a sum of n products: exact value, and the size of the terms.
struct element {
    double value = 0, size = 0;
    void add(double a) { value += a, size += std::fabs(a); }
};

// fp32 inside: a sum of n terms has n roundings of 2^-24 of the terms' size at most, in any order.
template <class T>
double error_in_ulps(const layer<T>& l) {
    const auto x = doubles(l.x), w = doubles(l.w), bias = doubles(l.bias), dy = doubles(l.dy);
    const int R = l.s.rows, I = l.s.in, O = l.s.out;
    const auto worst = [](const std::vector<T>& got, int n, auto f) {
        std::vector<double> want, slack;
        for (std::size_t i = 0; i < got.size(); ++i) {
            const element e = f(int(i));
            want.push_back(e.value);
            slack.push_back(e.size * (n + 2) * 0x1p-24);
        }
        return worst_ulps(got, want, slack);
    };
    const auto at = [](int a, int n, int b) {
        return std::size_t(a) * std::size_t(n) + std::size_t(b);
    };
    return std::max({worst(l.y, I, [&](int i) {
        element e;
        for (int k = 0; k < I; ++k) e.add(x[at(i / O, I, k)] * w[at(i % O, I, k)]);
        e.add(bias[std::size_t(i % O)]);
        return e;
    }), worst(l.dx, O, [&](int i) {
        element e;
        for (int k = 0; k < O; ++k) e.add(dy[at(i / I, O, k)] * w[at(k, I, i % I)]);
        return e;
    }), worst(l.dw, R, [&](int i) {
        element e;
        for (int k = 0; k < R; ++k) e.add(dy[at(k, O, i / I)] * x[at(k, I, i % I)]);
        return e;
    }), worst(l.dbias, R, [&](int i) {
        element e;
        for (int k = 0; k < R; ++k) e.add(dy[at(k, O, i)]);
        return e;
    })});
}

} // namespace

TEST_CASE("linear: gradients by finite differences") {
    machine m;
    for (const linear_shape s : shapes) {
        layer<double> l(s);
        l.run(m);
        const auto dx = l.dx, dw = l.dw, dbias = l.dbias;
        const auto loss = [&] { return l.forward(m), dot(l.y, l.dy); };
        CHECK(gradient_error(l.x, dx, loss, 100) < gradient_tolerance);
        CHECK(gradient_error(l.w, dw, loss, 100) < gradient_tolerance);
        CHECK(gradient_error(l.bias, dbias, loss, 100) < gradient_tolerance);
        if (s.rows == 64) { // the sabotage: the last row forgotten
            auto wrong = dbias;
            for (std::size_t j = 0; j < wrong.size(); ++j) wrong[j] -= l.dy[63 * wrong.size() + j];
            CHECK(gradient_error(l.bias, wrong, loss) > 1e-3);
        }
    }
}

TEST_CASE("linear: results are the exact sums, rounded once") {
    machine m;
    for (const linear_shape s : shapes) {
        layer<fp16> h(s);
        h.run(m);
        CHECK(error_in_ulps(h) <= 0.5);
        layer<bf16> b(s);
        b.run(m);
        CHECK(error_in_ulps(b) <= 0.5);
        layer<float> f(s);
        f.run(m);
        CHECK(error_in_ulps(f) <= 0.5);
        if (s.in == 600) { // the sabotage: one product in 600 forgotten
            h.y[1] = fp16(float(h.y[1]) - float(h.x[7]) * float(h.w[607]));
            CHECK(error_in_ulps(h) > 0.5);
        }
    }
}

TEST_CASE("a bias gradient of 4096 times 1.0 is 4096, also in 16 bits") {
    machine m;
    const auto sum = [&](auto one) {
        using T = decltype(one);
        const linear_shape s{4096, 1, 3};
        std::vector<T> dy(4096 * 3, one), x(4096, one), w(3, one), dw(3), dbias(3);
        linear_backward<T>(m.on, {}, span(dw), span(dbias), span(dy), span(x), span(w), s);
        CHECK(float(dw[1]) == 4096);
        return float(dbias[2]);
    };
    CHECK(sum(fp16(1.0f)) == 4096);
    CHECK(sum(bf16(1.0f)) == 4096);
    bf16 running(0.0f); // what a sum kept in bf16 gives
    for (int i = 0; i < 4096; ++i) running = bf16(float(running) + 1.0f);
    CHECK(float(running) == 256);
}

TEST_CASE("linear: same bits for 1, 2 and 3 threads; without bias and dx") {
    machine one(1), two(2), three(3);
    layer<fp16> a({600, 70, 700}), b({600, 70, 700}), c({600, 70, 700});
    a.run(one), b.run(two), c.run(three);
    CHECK((same_bits(a.y, b.y) && same_bits(a.dx, b.dx) && same_bits(a.dw, b.dw)));
    CHECK((same_bits(a.dbias, b.dbias) && same_bits(a.dbias, c.dbias) && same_bits(a.dw, c.dw)));
    std::vector<fp16> dw(a.dw.size());
    linear_backward<fp16>(two.on, {}, span(dw), {}, span(a.dy), span(a.x), span(a.w), a.s);
    CHECK(same_bits(a.dw, dw));
    std::fill(a.bias.begin(), a.bias.end(), fp16(0.0f));
    a.forward(one);
    linear_forward<fp16>(two.on, span(b.y), span(b.x), span(b.w), {}, b.s);
    CHECK(same_bits(a.y, b.y));
}

TEST_CASE("linear refuses arrays that do not fit the shape") {
    machine m;
    layer<float> l({3, 5, 7});
    CHECK_THROWS_WITH_AS(
        linear_forward<float>(m.on, span(l.y), span(l.x), span(l.w), span(l.bias), {3, 5, 6}),
        "linear: x, y, w, bias have 15, 21, 35, 7 elements; rows 3, in 5, out 6 want 15, 18, 30, 6 "
        "(or no bias)",
        error);
}
