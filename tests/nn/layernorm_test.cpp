// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/layernorm.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

template <class T>
struct layer {
    layernorm_shape s;
    std::vector<T> x, gamma, beta, dy, y, dx, dgamma, dbeta;
    std::vector<wide_t<T>> mean, rstd;
    explicit layer(layernorm_shape shape)
        : s(shape), x(numbers<T>(size(), 1, 1, 0.3)),
          gamma(numbers<T>(std::size_t(s.channels), 2, 0.5, 1)),
          beta(numbers<T>(std::size_t(s.channels), 3)), dy(numbers<T>(size(), 4)), y(size()),
          dx(size()), dgamma(gamma.size()), dbeta(beta.size()), mean(std::size_t(s.rows)),
          rstd(std::size_t(s.rows)) {}
    std::size_t size() const { return std::size_t(s.rows) * std::size_t(s.channels); }

    void forward(machine& m) {
        layernorm_forward<T>(m.on, span(y), span(mean), span(rstd), span(x), span(gamma),
                             span(beta), s);
    }
    void backward(machine& m, bool accumulate = false) {
        layernorm_backward<T>(m.on, span(dx), span(dgamma), span(dbeta), span(dy), span(x),
                              span(gamma), span(mean), span(rstd), s, accumulate);
    }
};

struct exact { // in double, with the sizes of the terms
    std::vector<double> y, y_size, dx, dx_size, dgamma, dgamma_size, dbeta, dbeta_size;
};
template <class T>
exact definition(const layer<T>& l) {
    const auto x = doubles(l.x), g = doubles(l.gamma), b = doubles(l.beta), dy = doubles(l.dy);
    const std::size_t R = std::size_t(l.s.rows), C = std::size_t(l.s.channels);
    const std::vector<double> none(C);
    exact e{x, x, x, x, none, none, none, none};
    for (std::size_t r = 0; r < R; ++r) {
        double mean = 0, largest = 0, square = 0, first = 0, second = 0, first_size = 0,
               second_size = 0;
        for (std::size_t c = 0; c < C; ++c) {
            mean += x[r * C + c] / double(C);
            largest += std::fabs(x[r * C + c]) / double(C);
        }
        for (std::size_t c = 0; c < C; ++c) square += std::pow(x[r * C + c] - mean, 2) / double(C);
        const double rstd = 1 / std::sqrt(square + 1e-5);
        for (std::size_t c = 0; c < C; ++c) {
            const double dg = dy[r * C + c] * g[c], n = (x[r * C + c] - mean) * rstd;
            first += dg / double(C), first_size += std::fabs(dg) / double(C);
            second += dg * n / double(C);
            second_size += std::fabs(dg) * (std::fabs(n) + largest * rstd) / double(C);
        }
        for (std::size_t c = 0; c < C; ++c) {
            const std::size_t i = r * C + c;
            const double n = (x[i] - mean) * rstd, n_size = std::fabs(n) + largest * rstd;
            e.y[i] = n * g[c] + b[c];
            e.y_size[i] = n_size * std::fabs(g[c]) + std::fabs(b[c]);
            e.dx[i] = rstd * (dy[i] * g[c] - first - n * second);
            e.dx_size[i] = rstd * (std::fabs(dy[i] * g[c]) + first_size + n_size * second_size);
            e.dgamma[c] += dy[i] * n;
            e.dgamma_size[c] += std::fabs(dy[i]) * n_size;
            e.dbeta[c] += dy[i];
            e.dbeta_size[c] += std::fabs(dy[i]);
        }
    }
    return e;
}

// fp32 inside. mean and variance are sums of C terms: C/32 + 8 roundings of 2^-24 each; dgamma and
// dbeta sums of `rows` terms, each with the error of n; everything else a dozen roundings. All are
// relative to the sizes of the terms. Then one rounding to T.
template <class T>
double error_in_ulps(const layer<T>& l) {
    const exact e = definition(l);
    const double k = (2 * (double(l.s.channels) / 32 + 8) + l.s.rows + 12) * 0x1p-24;
    const auto worst = [&](const std::vector<T>& got, const std::vector<double>& want,
                           std::vector<double> size) {
        for (double& s : size) s *= k;
        return worst_ulps(got, want, size);
    };
    return std::max({worst(l.y, e.y, e.y_size), worst(l.dx, e.dx, e.dx_size),
                     worst(l.dgamma, e.dgamma, e.dgamma_size),
                     worst(l.dbeta, e.dbeta, e.dbeta_size)});
}

const layernorm_shape shapes[] = {{1, 1}, {3, 2}, {2, 31}, {70, 5}, {5, 97}};

} // namespace

TEST_CASE("layernorm: gradients by finite differences") {
    machine m;
    for (const layernorm_shape s : shapes) {
        layer<double> l(s);
        l.forward(m);
        l.backward(m);
        const auto dx = l.dx, dgamma = l.dgamma, dbeta = l.dbeta;
        const auto loss = [&] { return l.forward(m), dot(l.y, l.dy); };
        CHECK(gradient_error(l.x, dx, loss, 100) < gradient_tolerance);
        CHECK(gradient_error(l.gamma, dgamma, loss, 100) < gradient_tolerance);
        CHECK(gradient_error(l.beta, dbeta, loss, 100) < gradient_tolerance);
        if (s.channels == 97) { // the sabotage: mean and variance taken for constants
            auto wrong = dx;
            for (std::size_t i = 0; i < wrong.size(); ++i)
                wrong[i] = l.dy[i] * l.gamma[i % 97] * l.rstd[i / 97];
            CHECK(gradient_error(l.x, wrong, loss) > 1e-3);
        }
    }
}

TEST_CASE("layernorm: results are the definition's, rounded once") {
    machine m;
    for (const layernorm_shape s : {shapes[1], shapes[2], shapes[3], shapes[4]}) {
        layer<fp16> h(s);
        h.forward(m), h.backward(m);
        CHECK(error_in_ulps(h) <= 0.5);
        layer<bf16> b(s);
        b.forward(m), b.backward(m);
        CHECK(error_in_ulps(b) <= 0.5);
        layer<float> f(s);
        f.forward(m), f.backward(m);
        CHECK(error_in_ulps(f) <= 0.5);
        if (s.channels == 97) { // the sabotage: a mean that was rounded to 16 bits
            h.mean[0] = float(fp16(h.mean[0]));
            h.backward(m);
            CHECK(error_in_ulps(h) > 0.5);
        }
    }
}

TEST_CASE("squares of fp16 300 do not overflow: rows of 300 and -300 become 1 and -1") {
    machine m;
    layer<fp16> l({2, 4});
    for (std::size_t i = 0; i < 8; ++i) {
        l.x[i] = fp16(i % 2 ? -300.0f : 300.0f);
        l.gamma[i / 2] = fp16(1.0f), l.beta[i / 2] = fp16(0.0f);
    }
    l.forward(m);
    for (std::size_t i = 0; i < 8; ++i) CHECK(float(l.y[i]) == (i % 2 ? -1 : 1));
    CHECK(std::isinf(float(fp16(300.0f * 300.0f)))); // what fp16 would have made of it
    l.backward(m);
    for (const fp16 d : l.dx) CHECK(std::isfinite(float(d)));
}

TEST_CASE("a gradient of gamma or beta of 4096 times 1.0 is 4096, also in 16 bits") {
    machine m;
    const auto sums = [&](auto one) {
        using T = decltype(one);
        layer<T> l({4096, 2});
        for (std::size_t i = 0; i < l.x.size(); ++i) l.x[i] = T(i % 2 ? -300.0f : 300.0f);
        std::fill(l.dy.begin(), l.dy.end(), one);
        l.forward(m);
        l.backward(m);
        CHECK(float(l.dbeta[0]) == 4096);
        CHECK(float(l.dgamma[0]) == 4096); // x is 1 after the norm
        CHECK(float(l.dgamma[1]) == -4096);
        T running(0.0f); // the sabotage: a sum kept in T
        for (int i = 0; i < 4096; ++i) running = T(float(running) + 1.0f);
        return float(running);
    };
    CHECK(sums(fp16(1.0f)) == 2048);
    CHECK(sums(bf16(1.0f)) == 256);
}

TEST_CASE("a constant row gives beta, also far from zero") {
    machine m;
    layer<float> l({3, 33});
    for (std::size_t i = 0; i < l.x.size(); ++i) l.x[i] = 1e6f * float(i / 33);
    l.forward(m);
    for (std::size_t i = 0; i < l.y.size(); ++i) CHECK(l.y[i] == doctest::Approx(l.beta[i % 33]));
}

TEST_CASE("layernorm: += where asked") {
    machine m;
    layer<float> l({7, 40});
    l.forward(m), l.backward(m);
    const auto once = l.dx;
    l.backward(m, true);
    for (std::size_t i = 0; i < once.size(); ++i) CHECK(l.dx[i] == once[i] + once[i]);
}

TEST_CASE("layernorm: same bits for 1, 2 and 3 threads") {
    machine one(1), two(2), three(3);
    layer<bf16> a({1031, 300}), b(a.s), c(a.s);
    a.forward(one), b.forward(two), c.forward(three);
    a.backward(one), b.backward(two), c.backward(three);
    CHECK((same_bits(a.y, b.y) && same_bits(a.mean, b.mean) && same_bits(a.rstd, c.rstd)));
    CHECK((same_bits(a.dx, b.dx) && same_bits(a.dgamma, b.dgamma) && same_bits(a.dbeta, b.dbeta)));
    CHECK((same_bits(a.dx, c.dx) && same_bits(a.dgamma, c.dgamma) && same_bits(a.dbeta, c.dbeta)));
}

TEST_CASE("layernorm refuses arrays that do not fit the shape") {
    machine m;
    layer<float> l({3, 5});
    l.s.channels = 4;
    CHECK_THROWS_WITH_AS(l.forward(m),
                         "layernorm: y, mean, rstd, x, gamma, beta have 15, 3, 3, 15, 5, 5 "
                         "elements; 3 rows of 4 channels want 12, 3, 3, 12, 4, 4",
                         error);
    CHECK_THROWS_AS(l.backward(m), error);
}
