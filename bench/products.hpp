// SPDX-License-Identifier: MIT
// products.hpp -- the matrix products of a GPT's training step and nothing else, through the CBLAS
// with threads of its own: no step that multiplies by it is faster. Without a CBLAS: mpt's loop.
#pragma once
#include "mpt/nn/gpt_layout.hpp" // gpt_config
#include "mpt/nn/product.hpp"    // cblas_sgemm where there is a CBLAS

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace bench {

inline void cblas_threads([[maybe_unused]] int n) {
#if defined(MPT_HAS_CBLAS) && defined(OPENBLAS_VERSION)
    openblas_set_num_threads(n);
#endif
}

inline std::string cblas_name() {
#if defined(MPT_HAS_CBLAS) && defined(OPENBLAS_VERSION)
    return std::string("OpenBLAS ") + openblas_get_corename();
#elif defined(MPT_HAS_CBLAS)
    return "CBLAS";
#else
    return "own loop";
#endif
}

// c (m,n) = a (m,k) b (k,n), + c when `add`; a and b as they lie, or transposed.
inline void raw_sgemm(bool ta, bool tb, int m, int n, int k, const float* a, int lda,
                      const float* b, int ldb, float* c, int ldc, bool add = false) {
#ifdef MPT_HAS_CBLAS
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n,
                k, 1, a, lda, b, ldb, add ? 1 : 0, c, ldc);
#else
    static std::vector<float> room(mpt::product_scratch<float>());
    mpt::product<float>(m, n, k, {a, std::size_t(lda), ta}, {b, std::size_t(ldb), tb}, c,
                        std::size_t(ldc), add, room.data());
#endif
}

class products {
public:
    products(const mpt::gpt_config& c, int B, int T)
        : c_(c), B_(B), T_(T), wide_(std::max({c.vocabulary, c.hidden(), c.qkv()})) {
        const std::size_t n = std::size_t(B) * std::size_t(T), wide = std::size_t(wide_);
        x_.assign(n * wide, 0.01f);
        dy_.assign(n * wide, 0.01f);
        y_.assign(n * wide, 0.0f);
        w_.assign(wide * std::size_t(c.channels), 0.01f);
        dw_.assign(wide * std::size_t(c.channels), 0.0f);
        scores_.assign(2 * 64 * std::size_t(T), 0.01f);
    }

    // Forward and backward of one step: three products a linear layer, seven a block of attention.
    void run() {
        for (int l = 0; l < c_.layers; ++l) {
            linear(c_.channels, c_.qkv());
            attention();
            linear(c_.channels, c_.channels);
            linear(c_.channels, c_.hidden());
            linear(c_.hidden(), c_.channels);
        }
        linear(c_.channels, c_.vocabulary); // the head
    }

private:
    // What is read is never written: the numbers stay the same from step to step.
    void linear(int in, int out) {
        const int n = B_ * T_;
        const float *x = x_.data(), *dy = dy_.data(), *w = w_.data();
        raw_sgemm(false, true, n, out, in, x, in, w, in, y_.data(), out);   // y = x w^T
        raw_sgemm(false, false, n, in, out, dy, out, w, in, y_.data(), in); // dx = dy w
        raw_sgemm(true, false, out, in, n, dy, out, x, in, dw_.data(), in); // dw = dy^T x
    }

    // Causal: 64 queries at a time against the keys they may see, as mpt does it.
    void attention() {
        const int D = c_.head_dim(), Q = c_.qkv(), C = c_.channels;
        for (int b = 0; b < B_; ++b)
            for (int h = 0; h < c_.heads; ++h)
                for (int i = 0; i < T_; i += 64) {
                    const int rows = std::min(64, T_ - i), end = i + rows;
                    const float* k = x_.data() + std::size_t(b * T_) * std::size_t(Q) + h * D;
                    const float *v = k, *q = k + std::size_t(i) * std::size_t(Q);
                    const std::size_t at = std::size_t(b * T_ + i) * std::size_t(C);
                    const float* d_o = dy_.data() + at + h * D;
                    float *o = y_.data() + at + h * D, *s = scores_.data();
                    float *ds = s + 64 * std::size_t(T_), *dk = dw_.data(), *dv = dk;
                    raw_sgemm(false, true, rows, end, D, q, Q, k, Q, s, end);    // S, forward
                    raw_sgemm(false, false, rows, D, end, s, end, v, Q, o, C);   // out = P V
                    raw_sgemm(false, true, rows, end, D, q, Q, k, Q, s, end);    // S, backward
                    raw_sgemm(false, true, rows, end, D, d_o, C, v, Q, ds, end); // dP = dO V^T
                    raw_sgemm(true, false, end, D, rows, s, end, d_o, C, dv, D, true); // dV
                    raw_sgemm(true, false, end, D, rows, ds, end, q, Q, dk, D, true);  // dK
                    raw_sgemm(false, false, rows, D, end, ds, end, k, Q, o, C);        // dQ = dS K
                }
    }

    mpt::gpt_config c_;
    int B_, T_, wide_;
    std::vector<float> x_, dy_, y_, w_, dw_, scores_;
};

} // namespace bench
