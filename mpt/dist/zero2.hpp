// SPDX-License-Identifier: MIT
/// @file zero2.hpp
/// ZeRO, stage 2: each rank keeps a part of the gradients, too.            tier 6, needs:
/// base/memory.hpp dist/sharded.hpp nn/cpu.hpp train/grad_accum.hpp
///
/// Idea     A rank takes the step for its shard and needs no other gradients than those. Backward
///          writes a unit's into a buffer that lives until they are summed over ranks; the shard
///          is kept, the rest freed. The sum of one unit travels while the next is computed.
///          Where gradients.micro is empty no shard is kept in T: it is added to the window's sum,
///          which may lie on the host (host_sums.hpp as `On`), from where it was reduced.
/// Formula  whole at a time: a unit that is written and `ahead` that travel; a GPT's embedding all
///          through backward: U + (1 + ahead) B gradients (unit 0: U, a block: B), padded
/// Costs    memory: 2 + 14/N bytes a 16-bit parameter with Adam, + 4/N of fp32 sums where each
///          micro-batch is reduced (the usual), + 4 where a window is.  traffic: as zero1.hpp
/// Breaks   a window summed in T: micro-batches are added up in fp32, each after its reduction
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5.2 (P_os+g)
/// See      strategy_sizes.hpp (what to allocate), sharded.hpp (publish), zero3.hpp,
///          tests/dist/zero_test.cpp, tests/dist/memory_test.cpp, tests/ladder/
#pragma once
#include "mpt/base/memory.hpp"      // buffer, memory
#include "mpt/dist/sharded.hpp"     // sharded: publish, mine, add_shards
#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/train/grad_accum.hpp" // accumulate

#include <cstddef>
#include <deque>
#include <vector>

namespace mpt {

/// On: what adds up gradients, the cpu or a list of operations that accumulate() knows.
template <class T, class On = cpu>
class zero2 : public sharded<T> {
public:
    /// All outlive the strategy. mem: where unit buffers lie. micros: micro-batches of a window.
    /// ahead: units whose gradients travel while others are computed; 0: each is waited for.
    zero2(const On& on, const layout& map, communicator& comm, memory& mem, int micros,
          reduce_mode mode = reduce_mode::every, int ahead = 1)
        : sharded<T>(map, comm, micros, mode), mem_(mem), ahead_(ahead), on_(on),
          units_(map.units.size()) {
        check(ahead >= 0, "zero: ", ahead, " units ahead; wanted 0 or more");
    }

    device_span<T> collect(gradients<T>& grads, int unit) override {
        state& u = units_[std::size_t(unit)];
        while (u.way.pending()) arrive(grads); // the micro-batch before
        if (!alone() || grads.micro.empty())
            u.room = buffer<T>(mem_, kind::comm, std::size_t(cut_.ranks()) * cut_.shard(unit),
                               "gradients of " + this->name(unit));
        return whole(grads, unit).first(this->map_.units[std::size_t(unit)].size());
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        order_.next(unit, micro);
        state& u = units_[std::size_t(unit)];
        u.micro = micro;
        if (this->once()) {
            accumulate<T>(on_, cut_.real(grads.sum, unit),
                          whole(grads, unit).first(cut_.real(grads.sum, unit).size()), micro == 0);
            u.room = {};
            if (micro + 1 < this->micros_) return;
            u.way = this->start_reduce(this->shard_in(grads.sum, unit), cut_.whole(grads.sum, unit),
                                       unit);
        } else {
            u.way = this->start_reduce(reduced(grads, unit), whole(grads, unit), unit);
        }
        moving_.push_back(unit);
        while (moving_.size() > std::size_t(ahead_)) arrive(grads);
    }

    owned_gradients<T> finish(gradients<T>& grads) override {
        order_.finish();
        while (!moving_.empty()) arrive(grads);
        owned_gradients<T> own;
        const device_span<const T> micro = grads.micro;
        const device_span<const float> sum = grads.sum;
        if (this->once())
            own.sum = this->owned([&](int u) { return this->shard_in(sum, u); });
        else if (adds(grads))
            own.sum = this->owned([&](int u) { return cut_.shard_of(sum, u); });
        else
            own.micro = this->owned([&](int u) { return cut_.shard_of(micro, u); });
        return own;
    }

protected:
    using sharded<T>::cut_;
    using sharded<T>::order_;
    bool alone() const { return cut_.ranks() == 1; } // its shard is the unit

    memory& mem_;
    int ahead_;

private:
    struct state {
        buffer<T> room; // the unit's gradients on this rank, padded
        handle way;     // of their sums
        int micro = 0;
    };

    // Are reduced shards added up in fp32? Those of a window of one stay as they are, if there is
    // a place for them.
    bool adds(const gradients<T>& grads) const {
        return !this->once() && (this->micros_ > 1 || grads.micro.empty());
    }

    // The unit's gradients of this micro-batch, padded.
    device_span<T> whole(gradients<T>& grads, int unit) {
        state& u = units_[std::size_t(unit)];
        return u.room.size() > 0 ? u.room.span() : cut_.shard_of(grads.micro, unit);
    }
    // Where this rank's shard of their sum over ranks lies.
    device_span<T> reduced(gradients<T>& grads, int unit) {
        if (!grads.micro.empty()) return cut_.shard_of(grads.micro, unit);
        const std::size_t shard = cut_.shard(unit);
        return whole(grads, unit).subspan(std::size_t(this->comm_.rank()) * shard, shard);
    }

    // The sums over ranks of the unit that was started first are there.
    void arrive(gradients<T>& grads) {
        const int unit = moving_.front();
        moving_.pop_front();
        state& u = units_[std::size_t(unit)];
        u.way.wait();
        if (adds(grads))
            accumulate<T>(on_, cut_.shard_of(grads.sum, unit), reduced(grads, unit), u.micro == 0);
        if (u.room.size() > 0) this->narrate("frees the gradients of ", this->name(unit));
        u.room = {};
    }

    const On& on_;
    std::vector<state> units_;
    std::deque<int> moving_; // in the order in which they were started
};

} // namespace mpt
