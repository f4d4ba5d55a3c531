// SPDX-License-Identifier: MIT
// around.hpp -- a strategy around another one: what is not overridden goes through. To look, or to
// break something.
#pragma once
#include "mpt/nn/strategy.hpp"    // strategy
#include "mpt/numeric/scalar.hpp" // narrow

#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

template <class T>
struct around : mpt::strategy<T> {
    explicit around(std::unique_ptr<mpt::strategy<T>> s) : inner(std::move(s)) {}

    mpt::device_span<const T> acquire(mpt::device_span<const T> weights, int unit) override {
        return inner->acquire(weights, unit);
    }
    void release(int unit) override { inner->release(unit); }
    mpt::device_span<T> collect(mpt::gradients<T>& grads, int unit) override {
        return inner->collect(grads, unit);
    }
    void ready(mpt::gradients<T>& grads, int unit, int micro) override {
        inner->ready(grads, unit, micro);
    }
    mpt::owned_gradients<T> finish(mpt::gradients<T>& grads) override {
        return inner->finish(grads);
    }
    mpt::pieces<T> mine(mpt::device_span<T> weights) override { return inner->mine(weights); }
    void publish(mpt::device_span<T> weights) override { inner->publish(weights); }
    void add_shards(std::span<double> sums) override { inner->add_shards(sums); }

    std::unique_ptr<mpt::strategy<T>> inner;
};

/// One infinity in the gradient of the last unit, when `due` says so: in its element `at`.
template <class T>
struct planted_infinity : around<T> {
    using around<T>::around;
    int unit = 0;
    std::size_t at = 0;
    bool due = false;

    mpt::device_span<T> collect(mpt::gradients<T>& grads, int u) override {
        const auto to = around<T>::collect(grads, u);
        if (u == unit) there_ = to;
        return to;
    }
    void ready(mpt::gradients<T>& grads, int u, int micro) override {
        if (u == unit && due) {
            there_.data()[at] = mpt::narrow<T>(INFINITY);
            due = false;
        }
        around<T>::ready(grads, u, micro);
    }

private:
    mpt::device_span<T> there_;
};
