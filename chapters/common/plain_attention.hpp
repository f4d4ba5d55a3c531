// SPDX-License-Identifier: MIT
// plain_attention.hpp -- attention and its gradients by their definition, one number at a time in
// fp64, with the sizes of what is summed: to these rounding errors are proportional.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

struct attention_sizes {
    int Tq, Tk, heads, kv_heads, D;
};

struct plain_attention {
    struct tensors { // (Tq,heads,D), lse (heads,Tq), (Tk,kv_heads,D)
        std::vector<double> out, lse, dq, dk, dv;
    };
    tensors value, size; // size: of the terms
    double largest = 0;  // sum of |q k| / sqrt(D) over a pair of vectors
    attention_sizes is;

    //! [definition]
    plain_attention(attention_sizes s, const std::vector<float>& q, const std::vector<float>& k,
                    const std::vector<float>& v, const std::vector<float>& dout)
        : is(s) {
        for (tensors* t : {&value, &size}) {
            t->out.resize(q.size()), t->dq.resize(q.size());
            t->dk.resize(k.size()), t->dv.resize(k.size());
            t->lse.resize(std::size_t(s.heads) * std::size_t(s.Tq));
        }
        for (int h = 0; h < s.heads; ++h)
            for (int i = 0; i < s.Tq; ++i) row(h, i, q, k, v, dout);
    }
    void row(int h, int i, const std::vector<float>& q, const std::vector<float>& k,
             const std::vector<float>& v, const std::vector<float>& dout) {
        const std::size_t D = std::size_t(is.D), at = std::size_t(i * is.heads + h) * D;
        const auto kv = [&](std::size_t j) { // head h's key and value j
            return (j * std::size_t(is.kv_heads) + std::size_t(h / (is.heads / is.kv_heads))) * D;
        };
        const double scale = 1 / std::sqrt(double(is.D));
        const std::size_t seen = std::size_t(std::max(0, i + 1 + is.Tk - is.Tq));
        std::vector<double> p(seen), dp(seen), dp_size(seen);
        double top = -HUGE_VAL, sum = 0, d = 0, d_size = 0;
        for (std::size_t j = 0; j < seen; ++j) {
            double terms = 0;
            for (std::size_t c = 0; c < D; ++c) {
                const double term = double(q[at + c]) * double(k[kv(j) + c]) * scale;
                p[j] += term, terms += std::fabs(term);
            }
            largest = std::max(largest, terms);
            top = std::max(top, p[j]);
        }
        for (double& e : p) sum += e = std::exp(e - top);
        value.lse[std::size_t(h * is.Tq + i)] = seen == 0 ? -HUGE_VAL : top + std::log(sum);
        for (std::size_t j = 0; j < seen; ++j) {
            p[j] /= sum;
            for (std::size_t c = 0; c < D; ++c) {
                add(value.out, size.out, at + c, p[j] * double(v[kv(j) + c]));
                add(value.dv, size.dv, kv(j) + c, p[j] * double(dout[at + c]));
                const double term = double(dout[at + c]) * double(v[kv(j) + c]);
                dp[j] += term, dp_size[j] += std::fabs(term);
            }
            d += p[j] * dp[j], d_size += p[j] * dp_size[j];
        }
        for (std::size_t j = 0; j < seen; ++j)
            for (std::size_t c = 0; c < D; ++c) {
                const double ds = p[j] * (dp[j] - d) * scale;
                const double most = p[j] * (dp_size[j] + d_size) * scale;
                value.dq[at + c] += ds * double(k[kv(j) + c]);
                value.dk[kv(j) + c] += ds * double(q[at + c]);
                size.dq[at + c] += most * std::fabs(double(k[kv(j) + c]));
                size.dk[kv(j) + c] += most * std::fabs(double(q[at + c]));
            }
    }
    //! [definition]

    //! [bound]
    // The largest error of `found`, as a share of what rounding explains. With u = 2^-24 a score is
    // off by (D + 8) u of its terms, and so, relatively, is e^score; a probability by that of its
    // own score and of its row's sum; a sum of n terms adds n u, and the rest some 32 u.
    double worst(const std::vector<float>& found, std::vector<double> tensors::*of) const {
        const int group = is.heads / is.kv_heads;
        const double terms = group * std::max(is.Tq, is.Tk) + 2 * is.D + 32;
        double most = 0;
        for (std::size_t e = 0; e < found.size(); ++e) {
            const double wanted = (value.*of)[e], off = std::fabs(double(found[e]) - wanted);
            const double room = of == &tensors::lse ? 1 + std::fabs(wanted) : (size.*of)[e];
            const double bound = (2 * (is.D + 8) * largest + terms) * 0x1p-24 * room;
            const bool same = double(found[e]) == wanted; // -infinity; 0 where nothing is seen
            most = same || off <= most * bound ? most : off / bound; // NaN is the largest
        }
        return most;
    }
    //! [bound]

private:
    static void add(std::vector<double>& sum, std::vector<double>& size, std::size_t at,
                    double term) {
        sum[at] += term, size[at] += std::fabs(term);
    }
};
