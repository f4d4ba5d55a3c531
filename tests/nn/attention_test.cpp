// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/attention.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

struct result {
    std::vector<double> out, lse, dqkv;
};

// The definition, in double, one number at a time. `size` receives, for every element of out, the
// sum of |p v|: what rounding errors of the sum are relative to.
result naive(const std::vector<double>& qkv, const std::vector<double>& dout, attention_shape s) {
    const std::size_t W = qkv_width(s), O = heads_width(s), D = std::size_t(s.head_dim);
    const std::size_t T = std::size_t(s.T), H = std::size_t(s.heads), K = std::size_t(s.kv_heads);
    const double scale = 1 / std::sqrt(double(D));
    result r;
    r.out.resize(std::size_t(s.B) * T * O);
    r.lse.resize(std::size_t(s.B) * H * T);
    r.dqkv.resize(qkv.size());
    for (std::size_t b = 0; b < std::size_t(s.B); ++b)
        for (std::size_t h = 0; h < H; ++h)
            for (std::size_t i = 0; i < T; ++i) {
                const std::size_t g = h / (H / K);
                const auto q = [&](std::size_t c) { return (b * T + i) * W + h * D + c; };
                const auto k = [&](std::size_t j, std::size_t c) {
                    return (b * T + j) * W + (H + g) * D + c;
                };
                const auto v = [&](std::size_t j, std::size_t c) { return k(j, c) + K * D; };
                const std::size_t o = (b * T + i) * O + h * D;
                std::vector<double> p(i + 1);
                double sum = 0;
                for (std::size_t j = 0; j <= i; ++j) {
                    double score = 0;
                    for (std::size_t c = 0; c < D; ++c) score += qkv[q(c)] * qkv[k(j, c)];
                    sum += p[j] = std::exp(score * scale);
                }
                r.lse[(b * H + h) * T + i] = std::log(sum);
                double mean = 0; // of dP over the row
                std::vector<double> dp(i + 1);
                for (std::size_t j = 0; j <= i; ++j) {
                    p[j] /= sum;
                    for (std::size_t c = 0; c < D; ++c) {
                        r.out[o + c] += p[j] * qkv[v(j, c)];
                        dp[j] += dout[o + c] * qkv[v(j, c)];
                        r.dqkv[v(j, c)] += p[j] * dout[o + c];
                    }
                    mean += p[j] * dp[j];
                }
                for (std::size_t j = 0; j <= i; ++j)
                    for (std::size_t c = 0; c < D; ++c) {
                        const double ds = p[j] * (dp[j] - mean) * scale;
                        r.dqkv[q(c)] += ds * qkv[k(j, c)];
                        r.dqkv[k(j, c)] += ds * qkv[q(c)];
                    }
            }
    return r;
}

struct sizes {
    std::size_t qkv, out, lse;
    explicit sizes(attention_shape s)
        : qkv(std::size_t(s.B * s.T) * qkv_width(s)), out(std::size_t(s.B * s.T) * heads_width(s)),
          lse(std::size_t(s.B * s.T * s.heads)) {}
};

template <class T>
struct run {
    std::vector<T> out, dqkv;
    std::vector<wide_t<T>> lse;
    run(machine& m, const std::vector<T>& qkv, const std::vector<T>& dout, attention_shape s,
        float p = 0, dropout_key key = {})
        : out(sizes(s).out), dqkv(sizes(s).qkv), lse(sizes(s).lse) {
        attention_forward<T>(m.on, span(out), span(lse), span(qkv), s, p, key);
        attention_backward<T>(m.on, span(dqkv), span(dout), span(qkv), span(out), span(lse), s, p,
                              key);
    }
};

double largest(const std::vector<double>& a, const std::vector<double>& b) {
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double off = std::fabs(a[i] - b[i]);
        worst = off > worst || std::isnan(off) ? off : worst;
    }
    return worst;
}

// B, T, heads, kv_heads, head_dim: MHA, GQA and MQA, around the edges of a block of 64 queries
const attention_shape shapes[] = {{1, 1, 1, 1, 1},  {2, 2, 2, 1, 3},   {1, 63, 4, 2, 8},
                                  {2, 64, 2, 2, 4}, {1, 65, 6, 3, 5},  {1, 129, 3, 1, 16},
                                  {3, 7, 4, 4, 7}};

} // namespace

TEST_CASE("attention equals its definition in double") {
    machine m;
    for (const attention_shape s : shapes) {
        const auto qkv = numbers(sizes(s).qkv, 1), dout = numbers(sizes(s).out, 2);
        const run<double> got(m, qkv, dout, s);
        const result want = naive(qkv, dout, s);
        CAPTURE(s.T);
        CHECK(largest(got.out, want.out) < 1e-13);
        CHECK(largest(got.lse, want.lse) < 1e-13);
        CHECK(largest(got.dqkv, want.dqkv) < 1e-12);
    }
}
