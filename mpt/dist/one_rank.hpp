// SPDX-License-Identifier: MIT
/// @file one_rank.hpp
/// The strategy of a rank that is alone: everything is here, nothing is sent.  tier 6, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp train/grad_accum.hpp
///
/// Idea     The words of strategy.hpp where they cost nothing: a unit's weights are a part of the
///          flat buffer, all gradients are mine, new weights are published by being there. What is
///          left is the window: a unit's gradient of each micro-batch is added to the fp32 sum.
/// Costs    memory: none.  compute: a window of M micro-batches adds M times, a window of one never
/// Breaks   ready() twice for one unit and micro-batch: it is counted twice
/// See      nn/strategy.hpp, tests/dist/one_rank_test.cpp, tests/dist/hiding_rank.hpp
#pragma once
#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/nn/params.hpp"        // layout, pieces
#include "mpt/nn/strategy.hpp"      // strategy, gradients, owned_gradients
#include "mpt/train/grad_accum.hpp" // accumulate

#include <cstddef>
#include <span>

namespace mpt {

/// On: what adds up gradients, the cpu or a list of operations that accumulate() knows.
template <class T, class On = cpu>
class one_rank : public strategy<T> {
public:
    /// Both outlive the strategy.
    one_rank(const On& on, const layout& map) : on_(on), map_(map) {}

    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        return part(weights, unit);
    }
    void release(int) override {}

    device_span<T> collect(gradients<T>& grads, int unit) override {
        return part(grads.micro, unit);
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        if (grads.sum.empty()) return;
        accumulate<T>(on_, part(grads.sum, unit), part(grads.micro, unit), micro == 0);
    }

    owned_gradients<T> finish(gradients<T>& grads) override {
        owned_gradients<T> own;
        if (grads.sum.empty())
            own.micro = parts(device_span<const T>(grads.micro));
        else
            own.sum = parts(device_span<const float>(grads.sum));
        return own;
    }

    pieces<T> mine(device_span<T> weights) override { return parts(weights); }
    void publish(device_span<T>) override {}
    void add_shards(std::span<double>) override {}

private:
    template <class E>
    device_span<E> part(device_span<E> flat, int unit) const {
        const unit_info& u = map_.units[std::size_t(unit)];
        return flat.subspan(u.begin, u.size());
    }

    template <class E>
    pieces<E> parts(device_span<E> flat) const {
        pieces<E> all;
        for (const unit_info& u : map_.units)
            all.push_back({flat.subspan(u.begin, u.size()), u.begin});
        return all;
    }

    const On& on_;
    const layout& map_;
};

} // namespace mpt
