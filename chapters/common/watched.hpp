// SPDX-License-Identifier: MIT
// watched.hpp -- the operations of mpt::loops, with an eye on the gradients that backward stores.
#pragma once
#include "mpt/nn/loops.hpp"       // loops: the operations
#include "mpt/numeric/scalar.hpp" // widen

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

//! [watched]
/// A model calls its operations by name; the names below hide those of mpt::loops.
struct watched : mpt::loops {
    using mpt::loops::loops;
    std::vector<float>* seen = nullptr; // gets the gradients, in the order they are made

    template <class T>
    void note(mpt::device_span<T> gradients) const {
        if (!seen) return;
        std::vector<T> host(gradients.size());
        copy_to_host(host, gradients);
        for (const T g : host) seen->push_back(float(mpt::widen(g)));
    }

    template <class T>
    void linear_backward(mpt::device_span<T> dx, mpt::device_span<T> dw, mpt::device_span<T> dbias,
                         mpt::device_view<T> dy, mpt::device_view<T> x, mpt::device_view<T> w,
                         mpt::linear_shape s) const {
        mpt::loops::linear_backward<T>(dx, dw, dbias, dy, x, w, s);
        note(dx);
    }
    //! [watched]
    template <class T>
    void cross_entropy_backward(mpt::device_span<T> dlogits, mpt::device_view<T> logits,
                                mpt::device_view<mpt::wide_t<T>> lse,
                                mpt::device_span<const int> targets, mpt::wide_t<T> seed, int rows,
                                int V) const {
        mpt::loops::cross_entropy_backward<T>(dlogits, logits, lse, targets, seed, rows, V);
        note(dlogits);
    }
    template <class T>
    void gelu_backward(mpt::device_span<T> dx, mpt::device_view<T> dy,
                       mpt::device_view<T> x) const {
        mpt::loops::gelu_backward<T>(dx, dy, x);
        note(dx);
    }
    template <class T>
    void layernorm_backward(mpt::device_span<T> dx, mpt::device_span<T> dgamma,
                            mpt::device_span<T> dbeta, mpt::device_view<T> dy,
                            mpt::device_view<T> x, mpt::device_view<T> gamma,
                            mpt::device_view<mpt::wide_t<T>> mean,
                            mpt::device_view<mpt::wide_t<T>> rstd, mpt::layernorm_shape s,
                            bool accumulate) const {
        mpt::loops::layernorm_backward<T>(dx, dgamma, dbeta, dy, x, gamma, mean, rstd, s,
                                          accumulate);
        note(dx);
    }
    template <class T>
    void attention_backward(mpt::device_span<T> dqkv, mpt::device_view<T> dout,
                            mpt::device_view<T> qkv, mpt::device_view<T> out,
                            mpt::device_view<mpt::wide_t<T>> lse, mpt::attention_shape s,
                            float p = 0, mpt::dropout_key key = {}) const {
        mpt::loops::attention_backward<T>(dqkv, dout, qkv, out, lse, s, p, key);
        note(dqkv);
    }
};

/// Percent of the gradients in each power of two, had they been made at scale S: for a curve.
inline std::vector<std::pair<double, double>> binades(const std::vector<float>& exact, float S) {
    std::vector<std::pair<double, double>> share;
    for (int i = -45; i <= 20; ++i) share.push_back({i, 0});
    for (const float g : exact)
        if (const int i = g != 0 ? std::ilogb(g * S) + 45 : -1; i >= 0 && i < int(share.size()))
            share[std::size_t(i)].second += 100 / double(exact.size());
    return share;
}
