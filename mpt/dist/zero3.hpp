// SPDX-License-Identifier: MIT
/// @file zero3.hpp
/// ZeRO, stage 3: each rank keeps a part of the weights, too.              tier 6, needs:
/// base/memory.hpp dist/weight_place.hpp dist/zero2.hpp nn/cpu.hpp
///
/// Idea     A unit's weights are gathered before they are used and freed after. The unit released
///          last stays until another is acquired or released: the end of forward and the begin of
///          backward are then one gather. The order of the first micro-batch is remembered; from
///          then on the next unit is gathered while this one computes. Nothing is published.
///          Shards may lie away (weight_place.hpp), in files even, at one rank too: ZeRO-Infinity.
/// Formula  whole at a time, weights and gradients, for a GPT with U parameters in unit 0 and B in
///          each of three blocks or more, padded: max(2 U, U + 2 B), and with one unit ahead
///          max(2 U + B, U + 4 B); nn/model_size.hpp has it with blocks that are run again
/// Costs    memory: 16/N bytes a 16-bit parameter with Adam, + 4/N of fp32 sums.  traffic: two
///          gathers of each unit a micro-batch, (N-1)/N of 3 M elements a parameter; once: 2 M + 1
/// Breaks   weights used after release, or kept over an update: NaN, or the old ones
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5.3 (P_os+g+p); Zhao et al.
///          2023, PyTorch FSDP, arXiv:2304.11277, sections 3.2, 3.3 (units, prefetch)
/// See      zero2.hpp (gradients), nn/gpt.hpp (who acquires), tests/dist/zero_test.cpp
#pragma once
#include "mpt/base/memory.hpp"       // buffer
#include "mpt/dist/weight_place.hpp" // weight_place: expect, fetch
#include "mpt/dist/zero2.hpp"        // zero2: collect, ready, finish
#include "mpt/nn/cpu.hpp"            // cpu

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

namespace mpt {

/// On: what adds up gradients, the cpu or a list of operations that accumulate() knows.
template <class T, class On = cpu>
class zero3 : public zero2<T, On> {
public:
    /// As zero2. ahead: 0: a unit is gathered when it is asked for; else the next one beside it.
    /// away: where this rank's shards are, if not in the device's memory; it outlives the strategy,
    /// whose `weights` may then be empty, of acquire and of publish.
    zero3(const On& on, const layout& map, communicator& comm, memory& mem, int micros,
          reduce_mode mode = reduce_mode::every, int ahead = 1, weight_place<T>* away = nullptr)
        : zero2<T, On>(on, map, comm, mem, micros, mode, ahead), away_(away),
          rooms_(map.units.size()) {}

    ~zero3() override {
        // A unit gathered ahead that nobody came for: the other ranks send it, and wait as well.
        if (coming_ == none || std::uncaught_exceptions() > 0) return;
        try {
            rooms_[std::size_t(coming_)].way.wait();
        } catch (const error&) { // whoever ended it is told by its own
        }
    }

    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        const std::size_t size = this->map_.units[std::size_t(unit)].size();
        if (here()) return cut_.shard_of(weights, unit).first(size);
        room& r = rooms_[std::size_t(unit)];
        if (kept_ == unit) kept_ = none;
        if (coming_ == unit) coming_ = none;
        drop(kept_);
        if (r.whole.size() == 0) gather(weights, unit);
        r.way.wait();
        ++r.held;
        follow(unit);
        if (const int next = behind(1); this->ahead_ > 0 && missing(next)) {
            gather(weights, next);
            coming_ = next;
        }
        if (const int later = behind(this->ahead_ > 0 ? 2 : 1); away_ && missing(later))
            away_->expect(later);
        return std::as_const(r.whole).span().first(size);
    }

    void release(int unit) override {
        if (here()) return;
        room& r = rooms_[std::size_t(unit)];
        check(r.held > 0, "zero3: release of ", this->name(unit), ", which is not acquired");
        if (--r.held > 0) return;
        drop(kept_);
        kept_ = unit;
    }

    device_span<T> collect(gradients<T>& grads, int unit) override {
        backward_ = true;
        return zero2<T, On>::collect(grads, unit);
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        zero2<T, On>::ready(grads, unit, micro);
        if (!this->order_.between()) return;
        if (learned_.empty() || seen_.size() < learned_.size()) // longer: with passes beside it
            learned_ = seen_;
        seen_.clear();
        lost_ = backward_ = false;
    }

    owned_gradients<T> finish(gradients<T>& grads) override {
        for (std::size_t u = 0; u < rooms_.size(); ++u)
            check(rooms_[u].held == 0, "zero3: ", this->name(int(u)),
                  " is still acquired at the window's end; release what is acquired");
        forget();
        return zero2<T, On>::finish(grads);
    }

    /// Of weights that are away: as their place has them.
    pieces<T> mine(device_span<T> weights) override {
        if (away_) return away_->mine();
        return this->owned([&](int u) { return cut_.shard_of(weights, u); });
    }
    /// Sends nothing: new weights are gathered when they are used.
    void publish(device_span<T>) override { forget(); }

private:
    using zero2<T, On>::cut_;
    static constexpr int none = -1;
    struct room {
        buffer<T> whole; // the unit's weights, padded; empty: not here
        handle way;      // of their gathering
        int held = 0;    // acquired, and not released
    };
    // Is what this rank keeps all that there is to gather?
    bool here() const { return this->alone() && !away_; }
    bool missing(int unit) const {
        return unit != none && rooms_[std::size_t(unit)].whole.size() == 0;
    }

    void gather(device_span<const T> weights, int unit) {
        drop(coming_); // another was expected
        buffer<T> whole(this->mem_, kind::comm, std::size_t(cut_.ranks()) * cut_.shard(unit),
                        "gathered weights of " + this->name(unit));
        this->narrate("gathers the weights of ", this->name(unit), ": ", whole.bytes(), " bytes");
        const device_span<const T> mine = shard(weights, unit, whole.span());
        room& r = rooms_[std::size_t(unit)];
        r.whole = std::move(whole);
        r.way = this->comm_.start_all_gather(r.whole.span(), mine);
    }
    // This rank's, where it lies; what is away is fetched into its place in `whole`.
    device_span<const T> shard(device_span<const T> weights, int unit, device_span<T> whole) {
        if (!away_) return cut_.shard_of(weights, unit);
        const std::size_t size = cut_.shard(unit);
        const device_span<T> place = whole.subspan(std::size_t(this->comm_.rank()) * size, size);
        away_->fetch(unit, place);
        return place;
    }
    // Frees a unit that nobody holds.
    void drop(int& unit) {
        if (unit == none) return;
        room& r = rooms_[std::size_t(unit)];
        r.way.wait();
        this->narrate("frees the weights of ", this->name(unit));
        r.whole = {};
        unit = none;
    }
    void forget() { // the weights change
        drop(kept_);
        drop(coming_);
    }

    // A unit is acquired. Behind a pass without backward (a validation) the next forward begins as
    // backward would, with unit 0: that it is none is seen by what was collected.
    void follow(int unit) {
        seen_.push_back(2 * unit + (backward_ ? 1 : 0));
        const std::size_t at = seen_.size();
        lost_ = lost_ || at > learned_.size() || learned_[at - 1] != seen_.back();
    }
    // The n-th that will be acquired after it, as far as is known.
    int behind(int n) const {
        const std::size_t at = seen_.size() + std::size_t(n) - 1;
        return !lost_ && at < learned_.size() ? learned_[at] / 2 : none;
    }

    weight_place<T>* away_; // nullptr: here
    std::vector<room> rooms_;
    int kept_ = none;                 // released last
    int coming_ = none;               // gathered ahead
    std::vector<int> learned_, seen_; // units in the order acquired: a micro-batch's, this one's;
                                      // times 2, and 1 more in backward
    bool backward_ = false;           // of this one has begun
    bool lost_ = false;               // this one's order is another
};

} // namespace mpt
