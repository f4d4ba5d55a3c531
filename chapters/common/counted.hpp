// SPDX-License-Identifier: MIT
// counted.hpp -- the operations of mpt::loops, counting their products; in a forward pass that
// backward asks for they may draw other dropout masks, as a generator does that has moved on.
#pragma once
#include "mpt/nn/loops.hpp" // loops: the operations

#include <set>

/// A model calls its operations by name; the names below hide those of mpt::loops.
struct counted : mpt::loops {
    using mpt::loops::loops;
    bool new_masks = false; // sabotage

    /// Which way the model goes from here on.
    void begin(bool backward) {
        in_backward_ = backward;
        redrawn_.clear();
    }

    //! [counts]
    struct {
        double blocks = 0, head = 0; // multiply-adds of forward and backward
        double again = 0;            // of forward inside backward
    } mutable products;

    void count(double forward, double backward, double& where) const {
        where += backward + (in_backward_ ? 0 : forward);
        products.again += in_backward_ ? forward : 0;
    }
    template <class Bias> // the head alone has none
    double& place(const Bias& bias) const {
        return bias.empty() ? products.head : products.blocks;
    }
    static double one(mpt::linear_shape s) { return double(s.rows) * s.in * s.out; }
    static double one(mpt::attention_shape s) { // causal: T (T + 1) / 2 scores a head
        return double(s.B) * s.heads * s.head_dim * s.T * (s.T + 1) / 2;
    }
    //! [counts]

    template <class T>
    void linear_forward(mpt::device_span<T> y, mpt::device_view<T> x, mpt::device_view<T> w,
                        mpt::device_view<T> bias, mpt::linear_shape s) const {
        count(one(s), 0, place(bias));
        mpt::loops::linear_forward<T>(y, x, w, bias, s);
    }
    template <class T>
    void linear_backward(mpt::device_span<T> dx, mpt::device_span<T> dw, mpt::device_span<T> dbias,
                         mpt::device_view<T> dy, mpt::device_view<T> x, mpt::device_view<T> w,
                         mpt::linear_shape s) const {
        count(0, 2 * one(s), place(dbias)); // dx and dw
        mpt::loops::linear_backward<T>(dx, dw, dbias, dy, x, w, s);
    }
    template <class T>
    void attention_forward(mpt::device_span<T> out, mpt::device_span<mpt::wide_t<T>> lse,
                           mpt::device_view<T> qkv, mpt::attention_shape s, float p,
                           mpt::dropout_key key) const {
        count(2 * one(s), 0, products.blocks); // scores, and what they weigh
        mpt::loops::attention_forward<T>(out, lse, qkv, s, p, drawn(key));
    }
    template <class T>
    void attention_backward(mpt::device_span<T> dqkv, mpt::device_view<T> dout,
                            mpt::device_view<T> qkv, mpt::device_view<T> out,
                            mpt::device_view<mpt::wide_t<T>> lse, mpt::attention_shape s, float p,
                            mpt::dropout_key key) const {
        count(0, 5 * one(s), products.blocks); // scores again, dv, dp, dq, dk
        mpt::loops::attention_backward<T>(dqkv, dout, qkv, out, lse, s, p, latest(key));
    }

    //! [new masks]
    mpt::dropout_key drawn(mpt::dropout_key key) const { // in forward
        if (new_masks && in_backward_) redrawn_.insert(key.layer);
        return latest(key);
    }
    mpt::dropout_key latest(mpt::dropout_key key) const { // the masks that were drawn last
        if (in_backward_ && redrawn_.count(key.layer)) key.step += 1 << 20;
        return key;
    }
    //! [new masks]
    template <class T>
    void residual_forward(mpt::device_span<T> out, mpt::device_view<T> x,
                          mpt::device_view<T> branch, float p, mpt::dropout_key key,
                          mpt::dropout_shape s) const {
        mpt::loops::residual_forward<T>(out, x, branch, p, drawn(key), s);
    }
    template <class T>
    void dropout_backward(mpt::device_span<T> dx, mpt::device_view<T> dy, float p,
                          mpt::dropout_key key, mpt::dropout_shape s) const {
        mpt::loops::dropout_backward<T>(dx, dy, p, latest(key), s);
    }

private:
    bool in_backward_ = false;
    mutable std::set<int> redrawn_; // layers of dropout keys
};
