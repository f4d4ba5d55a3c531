// SPDX-License-Identifier: MIT
/// @file ddp.hpp
/// Data-parallel: every rank holds everything, and gradients are added over ranks.  tier 6, needs:
/// comm/communicator.hpp dist/bucket.hpp dist/narrator.hpp dist/partition.hpp dist/ready_order.hpp
/// dist/reduce_mode.hpp nn/cpu.hpp nn/strategy.hpp train/grad_accum.hpp
///
/// Idea     Each rank has its own micro-batches. When a bucket's last gradient is there its
///          all_reduce begins, and backward goes on with the units before it. Then every rank has
///          the same gradients, takes the same step, and has the same weights without a word.
/// Formula  g = sum over ranks of g_r, in rank order: the seed has divided by all ranks' tokens
/// Costs    memory: as on one rank: 16 bytes a 16-bit parameter with Adam, + 4 of fp32 sums.
///          traffic: 2 (N-1)/N elements a parameter, once a window or M times (reduce_mode.hpp)
/// Breaks   the mean over ranks of their means, where ranks have unlike many targets
/// Source   Li et al. 2020, PyTorch Distributed, arXiv:2006.15704
/// See      bucket.hpp, partition.hpp (why it says which shard a gradient is of),
///          tests/dist/ddp_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp" // communicator, handle
#include "mpt/dist/bucket.hpp"       // bucket, buckets
#include "mpt/dist/narrator.hpp"     // narrator
#include "mpt/dist/partition.hpp"    // partition
#include "mpt/dist/ready_order.hpp"  // ready_order
#include "mpt/dist/reduce_mode.hpp"  // reduce_mode
#include "mpt/nn/cpu.hpp"            // cpu
#include "mpt/nn/strategy.hpp"       // strategy, gradients, owned_gradients
#include "mpt/train/grad_accum.hpp"  // accumulate

#include <cstddef>
#include <span>
#include <vector>

namespace mpt {

/// On: what adds up gradients, the cpu or a list of operations that accumulate() knows.
template <class T, class On = cpu>
class ddp : public strategy<T> {
public:
    narrator narrate;

    /// All outlive the strategy. micros: micro-batches of a window.
    ddp(const On& on, const layout& map, communicator& comm, int micros,
        reduce_mode mode = reduce_mode::once, std::size_t most = bucket_bytes)
        : narrate{comm.rank()}, on_(on), map_(map), comm_(comm), cut_(map, comm.size()),
          micros_(micros), mode_(mode), order_(map, micros) {
        for (const bucket& b : buckets(map, once() ? sizeof(float) : sizeof(T), most))
            slots_.push_back({b, 0, {}, -1});
    }

    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        return part(weights, unit);
    }
    void release(int) override {}

    device_span<T> collect(gradients<T>& grads, int unit) override {
        arrive(grads, slot_of(unit)); // the micro-batch before, which lies there
        return part(grads.micro, unit);
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        order_.next(unit, micro);
        slot& s = slot_of(unit);
        if (once()) accumulate<T>(on_, part(grads.sum, unit), part(grads.micro, unit), micro == 0);
        if (once() && micro + 1 < micros_) return;
        if (++s.ready < s.of.end - s.of.first) return;
        s.ready = 0;
        s.micro = micro;
        narrate("adds up gradients of ", map_.units[std::size_t(s.of.first)].name,
                s.of.end - s.of.first > 1 ? " and those behind it" : "",
                " over ranks: ", s.of.size * (once() ? sizeof(float) : sizeof(T)),
                " bytes, keeps all");
        s.way = once() ? comm_.start_all_reduce(grads.sum.subspan(s.of.begin, s.of.size))
                       : comm_.start_all_reduce(grads.micro.subspan(s.of.begin, s.of.size));
    }

    owned_gradients<T> finish(gradients<T>& grads) override {
        order_.finish();
        for (slot& s : slots_) arrive(grads, s);
        owned_gradients<T> own;
        if (grads.sum.empty())
            own.micro = shards(device_span<const T>(grads.micro));
        else
            own.sum = shards(device_span<const float>(grads.sum));
        return own;
    }

    pieces<T> mine(device_span<T> weights) override { return shards(weights); }
    void publish(device_span<T>) override {}
    void add_shards(std::span<double>) override {} // every rank has them all

private:
    struct slot {
        bucket of;
        int ready;  // of its units, in this micro-batch
        handle way; // of its all_reduce
        int micro;  // of which micro-batch
    };

    bool once() const { return mode_ == reduce_mode::once && micros_ > 1; }
    slot& slot_of(int unit) {
        for (slot& s : slots_)
            if (unit >= s.of.first) return s;
        throw error(join("ddp: unit ", unit, " of ", map_.units.size(), "; wanted 0 or more"));
    }

    // The bucket's sums over ranks are there, and added to the window's.
    void arrive(gradients<T>& grads, slot& s) {
        if (!s.way.pending()) return;
        s.way.wait();
        if (grads.sum.empty() || once()) return;
        accumulate<T>(on_, grads.sum.subspan(s.of.begin, s.of.size),
                      grads.micro.subspan(s.of.begin, s.of.size), s.micro == 0);
    }

    template <class E>
    device_span<E> part(device_span<E> flat, int unit) const {
        const unit_info& u = map_.units[std::size_t(unit)];
        return flat.subspan(u.begin, u.size());
    }
    // Everything, cut where the other strategies cut: sums over it are then taken as theirs are.
    template <class E>
    pieces<E> shards(device_span<E> flat) const {
        pieces<E> all;
        for (int u = 0; u < cut_.units(); ++u)
            for (int r = 0; r < cut_.ranks(); ++r)
                if (cut_.owned(u, r) > 0)
                    all.push_back(
                        {flat.subspan(cut_.begin(u, r), cut_.owned(u, r)), cut_.begin(u, r)});
        return all;
    }

    const On& on_;
    const layout& map_;
    communicator& comm_;
    partition cut_;
    int micros_;
    reduce_mode mode_;
    ready_order order_;
    std::vector<slot> slots_;
};

} // namespace mpt
