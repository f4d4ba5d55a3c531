// SPDX-License-Identifier: MIT
/// @file weight_place.hpp
/// Where a rank's part of the weights lies, if not on the device.          tier 6, needs:
/// base/device_span.hpp nn/params.hpp train/blocks.hpp
///
/// Idea     ZeRO-3 needs a rank's shard of a unit only while the unit is gathered, and an update
///          writes each weight once a step. So the shards can lie where room is cheap: whoever
///          gathers says which unit comes and fetches it into its place among the gathered ones;
///          whoever updates writes the new weights part by part, in order.
/// Formula  device bytes of weights = those of gathered units (zero3.hpp), and no shard
/// Breaks   fetch between room() and settle(): some weights are new, some old
/// Source   Rajbhandari et al. 2021, ZeRO-Infinity, arXiv:2104.07857, sections 5.1 and 6.2
/// See      host_weights.hpp, file_weights.hpp (two places), device_weights.hpp (the usual one),
///          zero3.hpp (who fetches), offload.hpp (who writes), tests/dist/weight_place_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/nn/params.hpp"        // pieces
#include "mpt/train/blocks.hpp"     // block, blocks

#include <cstddef>
#include <span>
#include <utility>

namespace mpt {

/// What an update writes.
template <class T>
class weight_target {
public:
    virtual ~weight_target() = default;

    /// The part of the weights that this rank owns. In files: which and how many, no memory.
    const pieces<T>& mine() const { return mine_; }

    /// Host memory for the new weights of the k-th part, which is a block of mine(), until send().
    /// Parts go in order, and those of a piece cover it. Throws what went wrong meanwhile.
    virtual device_span<T> room(std::size_t k, const block& part) = 0;
    /// They are written there.
    virtual void send(std::size_t k, const block& part) = 0;
    /// Returns when all that was sent lies where it belongs; throws where it cannot.
    virtual void settle() = 0;

    /// All weights, of a run that begins or is resumed. fill(begin, std::span<T>): values of the
    /// elements from `begin` of the flat buffer on. part: elements at once.
    template <class Fill>
    void begin(Fill fill, std::size_t part = 1 << 18) {
        std::size_t k = 0;
        for (const block& b : blocks(mine_, part)) {
            const device_span<T> to = room(k, b);
            fill(mine_[b.piece].begin + b.begin, std::span<T>(to.data(), to.size()));
            send(k++, b);
        }
        settle();
    }

protected:
    weight_target() = default;
    explicit weight_target(pieces<T> mine) : mine_(std::move(mine)) {}
    pieces<T> mine_;
};

/// ... and what ZeRO-3 gathers from.
template <class T>
class weight_place : public weight_target<T> {
public:
    /// Copies this rank's shard of the unit to `to`, on the device, padded; returns when it is
    /// there. Elements that nobody owns are NaN then, or as they were.
    virtual void fetch(int unit, device_span<T> to) = 0;
    /// The unit will be fetched soon, as far as is known: a place that is slow begins.
    virtual void expect(int) {}
};

} // namespace mpt
