// SPDX-License-Identifier: MIT
#include "checks.hpp"
#include "mpt/nn/attention.hpp"

#include <doctest/doctest.h>

using namespace mpt;
using namespace checks;

namespace {

struct result { // and the sizes of the terms that out and dqkv are sums of
    std::vector<double> out, lse, dqkv, out_size, dqkv_size;
};

// The definition, in double, one number at a time. `given_out`: backward's rowsum(dO out) is
// taken over what forward stored, rounded to T; empty: over the exact one.
result naive(const std::vector<double>& qkv, const std::vector<double>& dout, attention_shape s,
             const std::vector<double>& given_out = {}) {
    const std::size_t W = qkv_width(s), O = heads_width(s), D = std::size_t(s.head_dim);
    const std::size_t T = std::size_t(s.T), H = std::size_t(s.heads), K = std::size_t(s.kv_heads);
    const double scale = 1 / std::sqrt(double(D));
    result r;
    r.out.resize(std::size_t(s.B) * T * O);
    r.out_size.resize(r.out.size());
    r.lse.resize(std::size_t(s.B) * H * T);
    r.dqkv.resize(qkv.size());
    r.dqkv_size.resize(qkv.size());
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
                std::vector<double> p(i + 1), dp(i + 1), dp_size(i + 1);
                double sum = 0, d = 0, d_size = 0;
                for (std::size_t j = 0; j <= i; ++j) {
                    double score = 0;
                    for (std::size_t c = 0; c < D; ++c) score += qkv[q(c)] * qkv[k(j, c)];
                    sum += p[j] = std::exp(score * scale);
                }
                r.lse[(b * H + h) * T + i] = std::log(sum);
                for (std::size_t j = 0; j <= i; ++j) {
                    p[j] /= sum;
                    for (std::size_t c = 0; c < D; ++c) {
                        r.out[o + c] += p[j] * qkv[v(j, c)];
                        r.out_size[o + c] += p[j] * std::fabs(qkv[v(j, c)]);
                        dp[j] += dout[o + c] * qkv[v(j, c)];
                        dp_size[j] += std::fabs(dout[o + c] * qkv[v(j, c)]);
                        r.dqkv[v(j, c)] += p[j] * dout[o + c];
                        r.dqkv_size[v(j, c)] += p[j] * std::fabs(dout[o + c]);
                    }
                }
                for (std::size_t c = 0; c < D; ++c) {
                    const auto& stored = given_out.empty() ? r.out : given_out;
                    const double term = dout[o + c] * stored[o + c];
                    d += term;
                    d_size += std::fabs(term);
                }
                for (std::size_t j = 0; j <= i; ++j)
                    for (std::size_t c = 0; c < D; ++c) {
                        const double ds = p[j] * (dp[j] - d) * scale;
                        const double ds_size = p[j] * (dp_size[j] + d_size) * scale;
                        r.dqkv[q(c)] += ds * qkv[k(j, c)];
                        r.dqkv[k(j, c)] += ds * qkv[q(c)];
                        r.dqkv_size[q(c)] += ds_size * std::fabs(qkv[k(j, c)]);
                        r.dqkv_size[k(j, c)] += ds_size * std::fabs(qkv[q(c)]);
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
    // Sums of up to 129 terms of size 1 to 10 in another order: 129 * 10 * 1e-16 = 1.3e-13.
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

TEST_CASE("attention: gradients by finite differences, with and without dropout") {
    machine m;
    const dropout_key key{11, 1, 2, 3};
    for (const attention_shape s : shapes)
        for (const float p : {0.0f, 0.3f}) {
            auto qkv = numbers(sizes(s).qkv, 1);
            const auto dout = numbers(sizes(s).out, 2);
            const run<double> got(m, qkv, dout, s, p, key);
            std::vector<double> out(got.out.size()), lse(got.lse.size());
            const auto loss = [&] {
                attention_forward<double>(m.on, span(out), span(lse), span(qkv), s, p, key);
                return dot(out, dout);
            };
            CAPTURE(s.T);
            CAPTURE(p);
            CHECK(gradient_error(qkv, got.dqkv, loss, 60) < gradient_tolerance);
            if (s.T == 65) { // the sabotage: another mask, or rowsum(dO out) left out, in backward
                dropout_key other = key;
                other.layer++;
                std::vector<double> wrong(qkv.size());
                if (p > 0)
                    attention_backward<double>(m.on, span(wrong), span(dout), span(qkv),
                                               span(got.out), span(got.lse), s, p, other);
                else
                    wrong = naive(qkv, dout, s, std::vector<double>(dout.size())).dqkv;
                CHECK(gradient_error(qkv, wrong, loss, 60) > 1e-3);
            }
        }
}

// fp32 inside. A score has D + 2 roundings of 2^-24, relative to the sum of |q k|/sqrt(D) <= 12
// for these data: that is the relative error of e^score, and again of lse, which has T/32 + 8 more.
// dP and d have D + 5, the sums over keys or queries up to T * group. All are relative to the sizes
// of the terms, products of at most three such numbers. One rounding to T follows.
template <class T>
double error_in_ulps(machine& m, attention_shape s) {
    const auto qkv = numbers<T>(sizes(s).qkv, 1), dout = numbers<T>(sizes(s).out, 2);
    const run<T> got(m, qkv, dout, s);
    result want = naive(doubles(qkv), doubles(dout), s, doubles(got.out));
    const double D = s.head_dim, n = double(s.T) * s.heads / s.kv_heads;
    const double k = (2 * 12 * (D + 2) + s.T / 32.0 + 8 + D + 5 + n) * 0x1p-24;
    for (double& x : want.out_size) x *= k;
    for (double& x : want.dqkv_size) x *= k;
    return std::max(worst_ulps(got.out, want.out, want.out_size),
                    worst_ulps(got.dqkv, want.dqkv, want.dqkv_size));
}

TEST_CASE("attention in fp16, bf16 and fp32: the definition, rounded once") {
    machine m;
    for (const attention_shape s : shapes) {
        CAPTURE(s.T);
        CHECK(error_in_ulps<float>(m, s) <= 0.5);
        CHECK(error_in_ulps<fp16>(m, s) <= 0.5);
        CHECK(error_in_ulps<bf16>(m, s) <= 0.5);
    }
    machine tf32(2, true); // the sabotage: probabilities and operands of 11 bits
    CHECK(error_in_ulps<fp16>(tf32, shapes[4]) > 0.5);
}

TEST_CASE("tf32 products: 11 bits of every operand") {
    machine plain, tf32(2, true);
    const attention_shape s{1, 65, 4, 2, 8};
    const auto qkv = numbers<float>(sizes(s).qkv, 1), dout = numbers<float>(sizes(s).out, 2);
    const run<float> exact(plain, qkv, dout, s), rounded(tf32, qkv, dout, s);
    const double off = largest(doubles(exact.out), doubles(rounded.out));
    CHECK(off > 1e-5);
    CHECK(off < 1e-2); // scores of size 3 with 2^-11 each, then probabilities and values
    CHECK(largest(doubles(exact.dqkv), doubles(rounded.dqkv)) < 3e-2);
}

TEST_CASE("a case by hand: three positions of two channels, causal") {
    // q, k, v a position; o, lse, dq, dk, dv from an independent program
    const std::vector<double> qkv = {1, 0, 1, 1, 1, 2, 0.5, -1, 0, 2, 3, -1, 2, 1, -1, 0.5, 0, 1};
    const std::vector<double> dout = {1, 0, 0, 1, 1, 1};
    const std::vector<double> out = {1, 2, 1.514366630453614, 1.2284500543195789,
                                     1.61556835779185, 1.0090335393870948};
    const std::vector<double> lse = {0.7071067811865475, -0.05624740283687252, 2.549571902013722};
    const std::vector<double> dqkv = {
        0, 0, 0.5485837164107187, -0.23227959256049402, 1.6516474667489969, 1.39446415152219,
        0.4052571606126827, -0.4052571606126825, -0.4864455997884143, 0.2633486508716461,
        0.321306963680951, 0.5784902789077581, 0.20404662636334053, -0.12637398058546023,
        -0.06213811662230373, -0.031069058311151865, 0.02704556957005193, 0.02704556957005193};
    machine m;
    const run<double> got(m, qkv, dout, {1, 3, 1, 1, 2});
    CHECK(largest(got.out, out) < 1e-14);
    CHECK(largest(got.lse, lse) < 1e-14);
    CHECK(largest(got.dqkv, dqkv) < 1e-14);
}

TEST_CASE("64 channels of q = k = 40: 102400 passes fp16's range, the scores are fp32") {
    machine m;
    const attention_shape s{1, 70, 1, 1, 64};
    std::vector<fp16> qkv(sizes(s).qkv, fp16(40.0f)), dout(sizes(s).out, fp16(1.0f));
    const run<fp16> got(m, qkv, dout, s);
    CHECK(got.lse[0] == 12800);
    for (const fp16 x : got.out) CHECK(float(x) == 40);
    for (const fp16 x : got.dqkv) REQUIRE(std::isfinite(float(x)));
    fp16 score(0.0f), prescaled(0.0f); // the sabotage: a score kept in fp16; q / 8 would save it
    for (int c = 0; c < 64; ++c) {
        score = fp16(float(score) + 40.0f * 40.0f);
        prescaled = fp16(float(prescaled) + 40.0f / 8 * 40.0f);
    }
    CHECK(std::isinf(float(score)));
    CHECK(float(prescaled) == 12800);
}

TEST_CASE("no query sees a later key") {
    machine m;
    const attention_shape s{1, 130, 2, 1, 4};
    auto qkv = numbers(sizes(s).qkv, 1);
    const auto dout = numbers(sizes(s).out, 2);
    const run<double> before(m, qkv, dout, s);
    const std::size_t at = 100, width = qkv_width(s), out = heads_width(s);
    for (std::size_t c = 0; c < width; ++c) qkv[at * width + c] += 1;
    const run<double> after(m, qkv, dout, s);
    bool same = true, changed = true;
    for (std::size_t i = 0; i < before.out.size(); ++i)
        (i < at * out ? same : changed) &= (before.out[i] == after.out[i]) == (i < at * out);
    CHECK(same);
    CHECK(changed);
}

TEST_CASE("grouped heads: as if k and v were repeated for every query head") {
    machine m;
    const attention_shape grouped{2, 66, 4, 2, 5}, full{2, 66, 4, 4, 5};
    const auto qkv = numbers(sizes(grouped).qkv, 1), dout = numbers(sizes(grouped).out, 2);
    std::vector<double> repeated(sizes(full).qkv);
    const int map[] = {0, 0, 1, 1};
    for (std::size_t t = 0; t < 132; ++t)
        for (std::size_t h = 0; h < 4; ++h)
            for (std::size_t c = 0; c < 5; ++c) {
                repeated[t * 60 + h * 5 + c] = qkv[t * 40 + h * 5 + c];
                for (std::size_t kv = 0; kv < 2; ++kv)
                    repeated[t * 60 + (4 + 4 * kv + h) * 5 + c] =
                        qkv[t * 40 + (4 + 2 * kv + std::size_t(map[h])) * 5 + c];
            }
    const run<double> a(m, qkv, dout, grouped), b(m, repeated, dout, full);
    CHECK(largest(a.out, b.out) < 1e-14);
    double worst = 0;
    for (std::size_t t = 0; t < 132; ++t)
        for (std::size_t kv = 0; kv < 2; ++kv)
            for (std::size_t g = 0; g < 2; ++g)
                for (std::size_t c = 0; c < 5; ++c) {
                    const double* both = &b.dqkv[t * 60 + (4 + 4 * kv + 2 * g) * 5 + c];
                    const double one = a.dqkv[t * 40 + (4 + 2 * kv + g) * 5 + c];
                    worst = std::max(worst, std::fabs(one - both[0] - both[5]));
                }
    CHECK(worst < 1e-13);
}

TEST_CASE("attention: same bits for 1, 2 and 3 threads") {
    machine one(1), two(2), three(3);
    const attention_shape s{2, 130, 6, 3, 16};
    const dropout_key key{1, 2, 3, 4};
    const auto qkv = numbers<fp16>(sizes(s).qkv, 1), dout = numbers<fp16>(sizes(s).out, 2);
    const run<fp16> a(one, qkv, dout, s, 0.1f, key), b(two, qkv, dout, s, 0.1f, key),
        c(three, qkv, dout, s, 0.1f, key);
    CHECK((same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.dqkv, b.dqkv)));
    CHECK((same_bits(a.out, c.out) && same_bits(a.lse, c.lse) && same_bits(a.dqkv, c.dqkv)));
}

TEST_CASE("attention works in memory that grows with T, not with T squared") {
    // 4 T D: k, v and their gradients; 2 * 64 T: a block's scores and their gradients.
    const auto beyond = [](int T) {
        return attention_scratch<float>({1, T, 2, 1, 16}) -
               attention_scratch<float>({1, 0, 2, 1, 16});
    };
    for (const int T : {64, 128, 4096, 65536}) CHECK(beyond(T) == std::size_t(T) * (4 * 16 + 128));

    // And it takes no more: scratch of just that size does, a cache line less does not.
    const attention_shape s{1, 192, 2, 1, 16};
    const std::size_t bytes = attention_scratch<float>(s) * sizeof(float);
    const auto qkv = numbers<float>(sizes(s).qkv, 1), dout = numbers<float>(sizes(s).out, 2);
    for (const std::size_t less : {0, 64}) {
        memory mem;
        thread_pool pool(1);
        const cpu on(pool, mem, bytes - less);
        std::vector<float> out(sizes(s).out), lse(sizes(s).lse), dqkv(qkv.size());
        const auto both = [&] {
            attention_forward<float>(on, span(out), span(lse), span(qkv), s);
            attention_backward<float>(on, span(dqkv), span(dout), span(qkv), span(out), span(lse),
                                      s);
        };
        if (less == 0) {
            CHECK_NOTHROW(both());
            CHECK(mem.books.at_peak(kind::temp) == (bytes + 63) / 64 * 64); // whole cache lines
        } else {
            CHECK_THROWS_AS(both(), error);
        }
    }
}

TEST_CASE("attention refuses heads that do not divide, and arrays that do not fit") {
    machine m;
    std::vector<float> qkv(2 * 3 * 10), out(2 * 3 * 6), lse(2 * 3 * 3);
    CHECK_THROWS_WITH_AS(
        attention_forward<float>(m.on, span(out), span(lse), span(qkv), {2, 3, 3, 2, 2}),
        "attention: 3 query heads and 2 key/value heads; the latter must divide the former", error);
    CHECK_THROWS_WITH_AS(
        attention_forward<float>(m.on, span(out), span(lse), span(qkv), {2, 4, 3, 1, 2}),
        "attention: out, lse, qkv have 36, 18, 60 elements; B 2, T 4, 3 heads of 2 and 1 kv heads "
        "want 48, 24, 80",
        error);
}
