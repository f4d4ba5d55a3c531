// SPDX-License-Identifier: MIT
// attention.cpp -- attention in blocks of queries against the form that stores all probabilities.
#include "common.hpp"

#include "mpt/nn/attention.hpp" // attention_forward, attention_backward, attention_scratch
#include "mpt/nn/cpu.hpp"       // cpu
#include "mpt/nn/fast_math.hpp" // fast_exp
#include "mpt/nn/product.hpp"   // product, matrix, product_scratch
#include "mpt/nn/row_math.hpp"  // row_max, row_sum

#include <cmath>
#include <limits>

namespace {

constexpr const char* about =
    "Causal attention, forward and backward, in blocks of 64 queries that keep one number each,\n"
    "against the form that computes and keeps all T x T probabilities; and the bytes of both.";

using matrix = mpt::matrix<float>;

// The textbook's attention: S = Q K^T whole, masked; P = softmax(S), kept for backward. Its
// products, exponentials and threads are those of the blocks, so that only the form differs.
class materialised {
public:
    materialised(mpt::thread_pool& pool, mpt::memory& mem, mpt::attention_shape s)
        : pool_(pool), s_(s), T_(std::size_t(s.T)), D_(std::size_t(s.head_dim)),
          scale_(1 / std::sqrt(float(s.head_dim))),
          probabilities_(mem, mpt::kind::activations, heads() * T_ * T_, "probabilities"),
          gradients_(mem, mpt::kind::temp, std::size_t(pool.size()) * T_ * T_, "their gradients"),
          panels_(mem, mpt::kind::temp,
                  std::size_t(pool.size()) * mpt::product_scratch<float>(), "panels") {}

    std::size_t heads() const { return std::size_t(s_.B) * std::size_t(s_.heads); }
    std::size_t bytes() const { return probabilities_.span().bytes() + gradients_.span().bytes(); }

    void forward(float* out, const float* qkv) {
        pool_.for_each(heads(), [&](std::size_t task, int worker) {
            const place at = where(task);
            float* const p = probabilities_.span().data() + task * T_ * T_;
            float* const room = panels(worker);
            mpt::product<float>(s_.T, s_.T, s_.head_dim, at.q(qkv), transposed(at.k(qkv)), p, T_,
                                false, room);
            for (std::size_t i = 0; i < T_; ++i) {
                float* const row = p + i * T_;
                std::fill(row + i + 1, row + T_, -std::numeric_limits<float>::infinity());
                softmax(row, mpt::row_max(row, T_) * scale_);
            }
            mpt::product<float>(s_.T, s_.head_dim, s_.T, {p, T_}, at.v(qkv), out + at.out,
                                at.out_width, false, room);
        });
    }

    void backward(float* dqkv, const float* dout, const float* out, const float* qkv) {
        pool_.for_each(heads(), [&](std::size_t task, int worker) {
            const place at = where(task);
            const float* const p = probabilities_.span().data() + task * T_ * T_;
            float* const ds = gradients_.span().data() + std::size_t(worker) * T_ * T_;
            float* const room = panels(worker);
            const matrix d_o{dout + at.out, at.out_width};
            mpt::product<float>(s_.T, s_.T, s_.head_dim, d_o, transposed(at.v(qkv)), ds, T_, false,
                                room); // dP = dO V^T
            for (std::size_t i = 0; i < T_; ++i) {
                const float *o = out + at.out + i * at.out_width,
                            *g = dout + at.out + i * at.out_width;
                const float d =
                    mpt::row_sum<float>(D_, [o, g](std::size_t c) { return o[c] * g[c]; });
                score_gradient(ds + i * T_, p + i * T_, d);
            }
            const int T = s_.T, D = s_.head_dim;
            mpt::product<float>(T, D, T, {ds, T_}, at.k(qkv), dqkv + at.q_at, at.width, false,
                                room); // dQ = dS K
            mpt::product<float>(T, D, T, {ds, T_, true}, at.q(qkv), dqkv + at.k_at, at.width, false,
                                room); // dK = dS^T Q
            mpt::product<float>(T, D, T, {p, T_, true}, d_o, dqkv + at.v_at, at.width, false,
                                room); // dV = P^T dO
        });
    }

private:
    // Where a head's rows begin in qkv and out, and how far apart they lie.
    struct place {
        std::size_t q_at, k_at, v_at, out, width, out_width;
        matrix q(const float* qkv) const { return {qkv + q_at, width}; }
        matrix k(const float* qkv) const { return {qkv + k_at, width}; }
        matrix v(const float* qkv) const { return {qkv + v_at, width}; }
    };
    place where(std::size_t task) const {
        const std::size_t H = std::size_t(s_.heads), b = task / H, h = task % H;
        const std::size_t width = mpt::qkv_width(s_), q = b * T_ * width + h * D_;
        return {q, q + H * D_, q + 2 * H * D_, b * T_ * H * D_ + h * D_, width, H * D_};
    }
    static matrix transposed(matrix x) { return {x.data, x.stride, true}; }
    float* panels(int worker) {
        return panels_.span().data() + std::size_t(worker) * mpt::product_scratch<float>();
    }
    void softmax(float* MPT_RESTRICT row, float top) const {
        for (std::size_t j = 0; j < T_; ++j) row[j] = mpt::fast_exp(row[j] * scale_ - top);
        const float share =
            1 / mpt::row_sum<float>(T_, [row](std::size_t j) { return row[j]; });
        for (std::size_t j = 0; j < T_; ++j) row[j] *= share;
    }
    void score_gradient(float* MPT_RESTRICT dp, const float* MPT_RESTRICT p, float d) const {
        for (std::size_t j = 0; j < T_; ++j) dp[j] = p[j] * (dp[j] - d) * scale_;
    }

    mpt::thread_pool& pool_;
    mpt::attention_shape s_;
    std::size_t T_, D_;
    float scale_;
    mpt::buffer<float> probabilities_, gradients_, panels_;
};

void bench_length(bench::table& table, mpt::thread_pool& pool, int B, int T, int heads,
                  double goal) {
    const std::string tail = mpt::join(", T ", T);
    const std::string forward = "forward" + tail, backward = "backward" + tail,
                      both = "both ways" + tail, bytes = "bytes" + tail;
    if (!table.wants(forward) && !table.wants(backward) && !table.wants(both) &&
        !table.wants(bytes))
        return;
    mpt::memory mem;
    const mpt::attention_shape s{B, T, heads, heads, 64};
    const std::size_t rows = std::size_t(B) * std::size_t(T);
    const mpt::cpu on(pool, mem, sizeof(float) * mpt::attention_scratch<float>(s));
    materialised whole(pool, mem, s);
    const auto qkv = bench::numbers(pool, mem, rows * mpt::qkv_width(s));
    const auto dout = bench::numbers(pool, mem, rows * mpt::heads_width(s));
    auto out = bench::numbers(pool, mem, rows * mpt::heads_width(s));
    auto dqkv = bench::numbers(pool, mem, rows * mpt::qkv_width(s));
    auto lse = bench::numbers(pool, mem, rows * std::size_t(heads));
    const auto ours_forward = [&] {
        mpt::attention_forward<float>(on, out.span(), lse.span(), qkv.span(), s);
    };
    const auto ours_backward = [&] {
        mpt::attention_backward<float>(on, dqkv.span(), dout.span(), qkv.span(), out.span(),
                                       lse.span(), s);
    };
    const auto theirs_forward = [&] { whole.forward(out.span().data(), qkv.span().data()); };
    const auto theirs_backward = [&] {
        whole.backward(dqkv.span().data(), dout.span().data(), out.span().data(),
                       qkv.span().data());
    };
    const double tokens = 1e-3 * double(rows);
    const char* peer = "T x T probabilities";
    // Both are the same function, to the rounding of T sums of numbers of size 1.
    const auto same = [&](const char* what, const mpt::buffer<float>& buffer, auto ours,
                          auto theirs) {
        ours();
        const std::vector<float> first(buffer.span().data(), buffer.span().data() + buffer.size());
        theirs();
        for (std::size_t i = 0; i < first.size(); ++i)
            mpt::check(std::abs(first[i] - buffer.span().data()[i]) <= 1e-6f * float(T),
                       "attention: ", what, " differs at element ", i, ": ", first[i], " and ",
                       buffer.span().data()[i], "; one of the two forms is wrong");
    };
    same("out", out, ours_forward, theirs_forward);
    same("dqkv", dqkv, ours_backward, theirs_backward);
    table.compare(forward, "K tokens/s", 0, {"", tokens, ours_forward},
                  {peer, tokens, theirs_forward});
    table.compare(backward, "K tokens/s", 0, {"", tokens, ours_backward},
                  {peer, tokens, theirs_backward});
    table.compare(both, "K tokens/s", goal,
                  {"", tokens,
                   [&] {
                       ours_forward();
                       ours_backward();
                   }},
                  {peer, tokens, [&] {
                       theirs_forward();
                       theirs_backward();
                   }});
    // What each needs beside the inputs and results that both have: linear in T, and square.
    const double scratch = double(pool.size()) * double(sizeof(float)) *
                           double(mpt::attention_scratch<float>(s) - mpt::product_scratch<float>());
    table.at_most(bytes, "MB", 1e-6 * (scratch + double(lse.span().bytes())), peer,
                  1e-6 * double(whole.bytes()), 1);
}

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "attention", about);
    return bench::guarded("attention", [&] {
        bench::table table(o, "attention");
        mpt::thread_pool pool(o.threads);
        bench_length(table, pool, o.size(4, 1), o.size(256, 32), o.size(12, 2), 1.0);
        bench_length(table, pool, 1, o.size(1024, 65), o.size(12, 2), 1.5);
        bench_length(table, pool, 1, o.size(2048, 96), o.size(12, 1), 1.5);
    });
}
