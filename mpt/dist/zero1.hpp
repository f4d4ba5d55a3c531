// SPDX-License-Identifier: MIT
/// @file zero1.hpp
/// ZeRO, stage 1: each rank keeps a part of what the optimizer keeps.      tier 6, needs:
/// dist/sharded.hpp nn/cpu.hpp train/grad_accum.hpp
///
/// Idea     In ddp every rank takes the same step, on the same master weights and moments. Here
///          each takes its N-th of it. So it needs the sums of its own gradients alone: a
///          reduce_scatter, half of an all_reduce; and an all_gather of weights, the other half.
/// Formula  ready: my shard of a unit's gradients = sum over ranks;  publish: weights = all shards
/// Costs    memory: 4 + 12/N bytes a 16-bit parameter with Adam; + 4 of fp32 sums, + 4/N where each
///          micro-batch is reduced.  traffic: (N-1)/N of 2 elements a parameter, or M + 1
/// Breaks   the step taken on weights of the others that are old: publish() after each update
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5.1 (P_os)
/// See      strategy_sizes.hpp (what to allocate), sharded.hpp (publish), zero2.hpp,
///          tests/dist/zero_test.cpp, tests/ladder/
#pragma once
#include "mpt/dist/sharded.hpp"     // sharded: publish, mine, add_shards
#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/train/grad_accum.hpp" // accumulate

#include <cstddef>
#include <vector>

namespace mpt {

/// On: what adds up gradients, the cpu or a list of operations that accumulate() knows.
template <class T, class On = cpu>
class zero1 : public sharded<T> {
public:
    /// All outlive the strategy. micros: micro-batches of a window.
    zero1(const On& on, const layout& map, communicator& comm, int micros,
          reduce_mode mode = reduce_mode::once)
        : sharded<T>(map, comm, micros, mode), on_(on), units_(map.units.size()) {}

    device_span<T> collect(gradients<T>& grads, int unit) override {
        arrive(grads, unit); // the micro-batch before, which lies there
        return cut_.real(grads.micro, unit);
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        order_.next(unit, micro);
        state& u = units_[std::size_t(unit)];
        if (this->once()) {
            accumulate<T>(on_, cut_.real(grads.sum, unit), cut_.real(grads.micro, unit),
                          micro == 0);
            if (micro + 1 == this->micros_)
                u.way = this->start_reduce(this->shard_in(grads.sum, unit),
                                           cut_.whole(grads.sum, unit), unit);
            return;
        }
        u.micro = micro;
        u.way = this->start_reduce(this->shard_in(grads.micro, unit), cut_.whole(grads.micro, unit),
                                   unit);
    }

    owned_gradients<T> finish(gradients<T>& grads) override {
        order_.finish();
        owned_gradients<T> own;
        for (int unit = 0; unit < cut_.units(); ++unit) arrive(grads, unit);
        const device_span<const T> micro = grads.micro;
        const device_span<const float> sum = grads.sum;
        if (this->once())
            own.sum = this->owned([&](int u) { return this->shard_in(sum, u); });
        else if (this->adds_up())
            own.sum = this->owned([&](int u) { return cut_.shard_of(sum, u); });
        else
            own.micro = this->owned([&](int u) { return this->shard_in(micro, u); });
        return own;
    }

private:
    using sharded<T>::cut_;
    using sharded<T>::order_;
    struct state {
        handle way; // of the unit's gradients
        int micro = 0;
    };

    // The sums over ranks of what was ready are there, and added to the window's.
    void arrive(gradients<T>& grads, int unit) {
        state& u = units_[std::size_t(unit)];
        if (!u.way.pending()) return;
        u.way.wait();
        if (this->adds_up())
            accumulate<T>(on_, cut_.shard_of(grads.sum, unit), this->shard_in(grads.micro, unit),
                          u.micro == 0);
    }

    const On& on_;
    std::vector<state> units_;
};

} // namespace mpt
