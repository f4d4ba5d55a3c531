// SPDX-License-Identifier: MIT
/// @file sharded.hpp
/// What the stages of ZeRO have in common: each rank updates its shard.    tier 6, needs:
/// comm/communicator.hpp dist/narrator.hpp dist/partition.hpp dist/ready_order.hpp
/// dist/reduce_mode.hpp nn/strategy.hpp
///
/// Idea     Adam's step is elementwise, so a rank that owns a part of the parameters can take the
///          step for it alone, given the sum of their gradients over ranks; then it shows the
///          others the new weights. Here are the weights of stages 1 and 2, which all ranks hold.
/// Formula  reduce_scatter: my shard of a unit = sum over ranks;  all_gather: the unit = all shards
/// Breaks   padding taken for parameters: what is between a unit's end and its last shard's end is
///          never written, and NaN
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5.1 (P_os)
/// See      zero1.hpp, zero2.hpp, zero3.hpp, partition.hpp
#pragma once
#include "mpt/comm/communicator.hpp" // communicator, handle
#include "mpt/dist/narrator.hpp"     // narrator
#include "mpt/dist/partition.hpp"    // partition
#include "mpt/dist/ready_order.hpp"  // ready_order
#include "mpt/dist/reduce_mode.hpp"  // reduce_mode
#include "mpt/nn/strategy.hpp"       // strategy, gradients, owned_gradients

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace mpt {

template <class T>
class sharded : public strategy<T> {
public:
    narrator narrate;

    /// A part of the weights, which hold units whole, with padding (partition.hpp).
    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        return cut_.real(weights, unit);
    }
    void release(int) override {}

    pieces<T> mine(device_span<T> weights) override {
        return owned([&](int u) { return shard_in(weights, u); });
    }

    /// Gathers all units; returns when they are there.
    void publish(device_span<T> weights) override {
        std::vector<handle> ways;
        for (int u = 0; u < cut_.units(); ++u) {
            const device_span<T> whole = cut_.whole(weights, u);
            narrate("gathers the new weights of ", name(u), ": ", whole.bytes(), " bytes");
            ways.push_back(comm_.start_all_gather(whole, shard_in(weights, u)));
        }
        for (handle& way : ways) way.wait();
    }

    /// Each rank's sums are added in rank order.
    void add_shards(std::span<double> sums) override {
        const std::vector<double> all = comm_.gather(sums);
        for (std::size_t i = 0; i < sums.size(); ++i) {
            sums[i] = all[i];
            for (std::size_t r = 1; r < std::size_t(comm_.size()); ++r)
                sums[i] += all[r * sums.size() + i];
        }
    }

protected:
    sharded(const layout& map, communicator& comm, int micros, reduce_mode mode)
        : narrate{comm.rank()}, map_(map), comm_(comm), cut_(map, comm.size()), micros_(micros),
          mode_(mode), order_(map, micros) {}

    /// Are sums of the window reduced, in fp32, once?
    bool once() const { return mode_ == reduce_mode::once && micros_ > 1; }
    /// ... or each micro-batch, whose sums are then added up?
    bool adds_up() const { return mode_ == reduce_mode::every && micros_ > 1; }

    /// This rank's shard of a unit, with padding, of a buffer that holds units whole.
    template <class E>
    device_span<E> shard_in(device_span<E> padded, int unit) const {
        return cut_.whole(padded, unit)
            .subspan(std::size_t(comm_.rank()) * cut_.shard(unit), cut_.shard(unit));
    }
    /// The real part of this rank's shards, span(unit) each.
    template <class Span>
    auto owned(Span span) const {
        using E = std::remove_pointer_t<decltype(span(0).data())>;
        return cut_.template pieces_of<E>(comm_.rank(), span);
    }

    template <class E>
    handle start_reduce(device_span<E> shard, device_span<E> whole, int unit) {
        narrate("adds up gradients of ", name(unit), " over ranks: ", whole.bytes(),
                " bytes, keeps ", shard.bytes());
        return comm_.start_reduce_scatter(shard, device_span<const E>(whole));
    }
    const std::string& name(int unit) const { return map_.units[std::size_t(unit)].name; }

    const layout& map_;
    communicator& comm_;
    partition cut_;
    int micros_;
    reduce_mode mode_;
    ready_order order_;
};

} // namespace mpt
