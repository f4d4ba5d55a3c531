// SPDX-License-Identifier: MIT
#include "mpt/kernels/layernorm.cuh"
#include "tests/kernels/rig.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace rig;

namespace {

struct shape {
    int rows, channels;
};
const shape shapes[] = {{1, 1},  {3, 31},    {31, 33},  {257, 7}, {601, 2},
                        {9, 64}, {10, 1600}, {3, 1601}, {1, 5124}, {1, 6001}, {0, 33}};

// The definition in fp64, and the sizes of its terms.
struct exact {
    std::vector<double> y, y_size, mean, rstd, dx, dx_size, dgamma, dgamma_size, dbeta, dbeta_size;
};

template <class H>
struct layer {
    shape s;
    std::vector<H> x, gamma, beta, dy, before;
    explicit layer(shape of)
        : s(of), x(checks::numbers<H>(size(), 1, 1, 0.3)),
          gamma(checks::numbers<H>(channels(), 2, 0.5, 1)),
          beta(checks::numbers<H>(channels(), 3)), dy(checks::numbers<H>(size(), 4)),
          before(checks::numbers<H>(size(), 5)) {}
    std::size_t rows() const { return std::size_t(s.rows); }
    std::size_t channels() const { return std::size_t(s.channels); }
    std::size_t size() const { return rows() * channels(); }

    exact definition(bool accumulate) const {
        const auto x_ = checks::doubles(x), g = checks::doubles(gamma), b = checks::doubles(beta),
                   d = checks::doubles(dy), old = checks::doubles(before);
        const std::size_t R = rows(), C = channels();
        exact e;
        e.y = e.y_size = e.dx = e.dx_size = std::vector<double>(size());
        e.mean = e.rstd = std::vector<double>(R);
        e.dgamma = e.dgamma_size = e.dbeta = e.dbeta_size = std::vector<double>(C);
        for (std::size_t r = 0; r < R; ++r) {
            double mean = 0, largest = 0, square = 0;
            for (std::size_t c = 0; c < C; ++c) {
                mean += x_[r * C + c] / double(C);
                largest += std::fabs(x_[r * C + c]) / double(C);
            }
            for (std::size_t c = 0; c < C; ++c)
                square += (x_[r * C + c] - mean) * (x_[r * C + c] - mean) / double(C);
            const double rstd = 1 / std::sqrt(square + 1e-5);
            double first = 0, second = 0, first_size = 0, second_size = 0;
            for (std::size_t c = 0; c < C; ++c) {
                const double along = d[r * C + c] * g[c], n = (x_[r * C + c] - mean) * rstd;
                first += along / double(C), first_size += std::fabs(along) / double(C);
                second += along * n / double(C);
                second_size += std::fabs(along) * (std::fabs(n) + largest * rstd) / double(C);
            }
            for (std::size_t c = 0; c < C; ++c) {
                const std::size_t i = r * C + c;
                const double n = (x_[i] - mean) * rstd, n_size = std::fabs(n) + largest * rstd;
                e.y[i] = n * g[c] + b[c];
                e.y_size[i] = n_size * std::fabs(g[c]) + std::fabs(b[c]);
                e.dx[i] = rstd * (d[i] * g[c] - first - n * second) + (accumulate ? old[i] : 0);
                e.dx_size[i] = rstd * (std::fabs(d[i] * g[c]) + first_size + n_size * second_size) +
                               (accumulate ? std::fabs(old[i]) : 0);
                e.dgamma[c] += d[i] * n;
                e.dgamma_size[c] += std::fabs(d[i]) * n_size;
                e.dbeta[c] += d[i];
                e.dbeta_size[c] += std::fabs(d[i]);
            }
            e.mean[r] = mean;
            e.rstd[r] = rstd;
        }
        return e;
    }
    // fp32 inside: mean, variance and the two sums of backward add C terms, C / 32 + 10 roundings
    // of 2^-24 each; dgamma and dbeta `rows` terms, in parts or not; everything else a dozen. All
    // are relative to the sizes of the terms.
    double roundings() const {
        return (2 * (double(s.channels) / 32 + 10) + s.rows + 12) * 0x1p-24;
    }
};

template <class T>
struct results {
    std::vector<host_t<T>> dx, dgamma, dbeta;
};

// dx may be dy: in_place.
template <class T, class F>
results<T> backward(const layer<host_t<T>>& l, const exact& e, std::size_t offset, bool accumulate,
                    bool in_place, F run) {
    using H = host_t<T>;
    const array<T> x(l.x, offset), dy(l.dy, offset), gamma(l.gamma);
    std::vector<float> mean(e.mean.begin(), e.mean.end()), rstd(e.rstd.begin(), e.rstd.end());
    const array<float> on_mean(mean), on_rstd(rstd);
    array<T> dx(accumulate ? l.before : std::vector<H>(l.size()), offset);
    array<T> dgamma(l.channels()), dbeta(l.channels());
    const scratch room(layernorm_backward_bytes(l.s.rows, l.s.channels));
    T* const to = in_place ? dy.data() : dx.data();
    run(layernorm_backward_args<T>{to, dgamma, dbeta, dy, x, gamma, on_mean, on_rstd, l.s.rows,
                                   l.s.channels, accumulate, room});
    return {in_place ? dy.read() : dx.read(), dgamma.read(), dbeta.read()};
}

template <class T, class F>
void backward_is_right(F run) {
    struct {
        std::size_t offset;
        bool accumulate, in_place;
    } const ways[] = {{0, false, false}, {1, true, false}, {1, false, true}, {0, true, false}};
    for (const shape& s : shapes)
        for (const auto& way : ways) {
            const layer<host_t<T>> l(s);
            const exact e = l.definition(way.accumulate);
            const auto r = backward<T>(l, e, way.offset, way.accumulate, way.in_place, run);
            const auto within = [&](const std::vector<double>& size) {
                return [&l, &size](std::size_t i) { return l.roundings() * size[i]; };
            };
            CHECK(difference(r.dx, e.dx, within(e.dx_size)) == "");
            CHECK(difference(r.dgamma, e.dgamma, within(e.dgamma_size)) == "");
            CHECK(difference(r.dbeta, e.dbeta, within(e.dbeta_size)) == "");
        }
}

} // namespace

TEST_CASE_TEMPLATE("forward: y, mean and rstd of the definition", T, float, __half,
                   __nv_bfloat16) {
    for (const shape& s : shapes)
        for (const std::size_t offset : {0, 1}) {
            const layer<host_t<T>> l(s);
            const exact e = l.definition(false);
            const array<T> x(l.x, offset), gamma(l.gamma, offset), beta(l.beta, 0);
            array<T> y(l.size());
            array<float> mean(l.rows()), rstd(l.rows());
            layernorm_forward<T>({y, mean, rstd, x, gamma, beta, s.rows, s.channels}, stream());
            CHECK(difference(y.read(), e.y, [&](std::size_t i) {
                      return l.roundings() * e.y_size[i];
                  }) == "");
            // sizes of the terms: |x| about 1; of rstd half the variance's relative error
            CHECK(difference(mean.read(), e.mean, [&](std::size_t) {
                      return l.roundings() * 3;
                  }) == "");
            CHECK(difference(rstd.read(), e.rstd, [&](std::size_t r) {
                      return l.roundings() * (1 + 3 * e.rstd[r]) * e.rstd[r];
                  }) == "");
        }
}

TEST_CASE_TEMPLATE("backward, version 1: dx by rows, dgamma and dbeta by columns", T, float, __half,
                   __nv_bfloat16) {
    backward_is_right<T>(
        [](const layernorm_backward_args<T>& a) { layernorm_backward_apart<T>(a, stream()); });
}

TEST_CASE_TEMPLATE("backward, version 2: all in one pass", T, float, __half, __nv_bfloat16) {
    backward_is_right<T>(
        [](const layernorm_backward_args<T>& a) { layernorm_backward<T>(a, stream()); });
}

TEST_CASE("backward: the same bits in any order of threads") {
    const layer<float> l({257, 100});
    const exact e = l.definition(false);
    CHECK(in_all_orders([&] {
              auto r = backward<float>(l, e, 0, false, false,
                                       [](const layernorm_backward_args<float>& a) {
                                           layernorm_backward<float>(a, stream());
                                       });
              r.dx.insert(r.dx.end(), r.dgamma.begin(), r.dgamma.end());
              r.dx.insert(r.dx.end(), r.dbeta.begin(), r.dbeta.end());
              return r.dx;
          }) == "");
}

TEST_CASE("the bounds bite: a mean that was rounded to fp16 is seen") { // sabotage
    const layer<mpt::fp16> l({9, 64});
    exact e = l.definition(false);
    const exact right = e;
    for (double& m : e.mean) m = double(float(mpt::fp16(float(m))));
    const auto r = backward<__half>(l, e, 0, false, false,
                                    [](const layernorm_backward_args<__half>& a) {
                                        layernorm_backward<__half>(a, stream());
                                    });
    CHECK(difference(r.dgamma, right.dgamma, [&](std::size_t i) {
              return l.roundings() * right.dgamma_size[i];
          }) != "");
}
