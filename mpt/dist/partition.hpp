// SPDX-License-Identifier: MIT
/// @file partition.hpp
/// Which rank owns which element, for every strategy alike.                tier 6, needs:
/// base/device_span.hpp nn/params.hpp
///
/// Idea     Each unit is cut into N shards of one length, so that one reduce_scatter or all_gather
///          moves it; the last shards may be short or empty, and what is missing to N shards is
///          padding. Shards begin at multiples of 256 elements of their unit: blocks of 8-bit
///          moments (train/block_moments.hpp) lie in one shard each.
/// Formula  shard = 256 ceil(size / 256 N);  rank r owns [r shard, (r + 1) shard) of the unit, cut
///          at its end;  padded unit = N shard
/// Costs    memory: at most 256 N - 1 elements of padding a unit, in buffers that hold units whole
/// Breaks   a norm, a checkpoint or an update that takes padding for parameters
/// Source   Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5 (each rank its part)
/// See      ddp.hpp, nn/params.hpp (units), tests/dist/partition_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span, check
#include "mpt/nn/params.hpp"        // layout, piece, pieces

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mpt {

class partition {
public:
    static constexpr std::size_t grain = 256; // elements: where shards may be cut

    partition(const layout& map, int ranks) : ranks_(ranks) {
        check(ranks >= 1, "partition: ", ranks, " ranks, wanted 1 or more");
        const std::size_t n = std::size_t(ranks);
        std::size_t padded = 0, packed = 0;
        for (const unit_info& u : map.units) {
            const std::size_t shard = (u.size() + grain * n - 1) / (grain * n) * grain;
            cut_.push_back({u.begin, u.size(), shard, padded, packed});
            padded += n * shard;
            packed += shard;
        }
        padded_ = padded;
        packed_ = packed;
    }

    int ranks() const { return ranks_; }
    int units() const { return int(cut_.size()); }

    // ---- buffers that hold all units, each padded --------------------------------------------
    std::size_t padded_size() const { return padded_; } // elements
    /// The unit with its padding, in such a buffer.
    template <class T>
    device_span<T> whole(device_span<T> padded, int unit) const {
        return padded.subspan(at(unit).padded, std::size_t(ranks_) * at(unit).shard);
    }
    /// The unit without.
    template <class T>
    device_span<T> real(device_span<T> padded, int unit) const {
        return padded.subspan(at(unit).padded, at(unit).size);
    }

    // ---- buffers that hold one rank's shard of every unit ------------------------------------
    std::size_t packed_size() const { return packed_; } // elements, with padding
    std::size_t shard(int unit) const { return at(unit).shard; }
    template <class T>
    device_span<T> shard_of(device_span<T> packed, int unit) const {
        return packed.subspan(at(unit).packed, at(unit).shard);
    }

    // ---- parameters --------------------------------------------------------------------------
    /// Elements of the unit that rank r owns, without padding; 0 where the unit is too short.
    std::size_t owned(int unit, int r) const {
        const std::size_t from = std::size_t(r) * at(unit).shard;
        return std::min(at(unit).size, from + at(unit).shard) - std::min(at(unit).size, from);
    }
    /// Parameters that rank r owns, of all units.
    std::size_t owned(int r) const {
        std::size_t sum = 0;
        for (int u = 0; u < units(); ++u) sum += owned(u, r);
        return sum;
    }
    /// The real part of rank r's shards, unit by unit; empty ones are left out. `span(unit)` gives
    /// the shard's memory, padded or not.
    template <class T, class Span>
    pieces<T> pieces_of(int r, Span span) const {
        pieces<T> own;
        for (int u = 0; u < units(); ++u)
            if (owned(u, r) > 0)
                own.push_back({device_span<T>(span(u)).first(owned(u, r)), begin(u, r)});
        return own;
    }
    /// Where in the layout's flat buffer rank r's shard of the unit begins.
    std::size_t begin(int unit, int r) const {
        return at(unit).begin + std::size_t(r) * at(unit).shard;
    }

private:
    struct cut {
        std::size_t begin, size;    // of the unit, in the layout
        std::size_t shard;          // elements of each rank's part
        std::size_t padded, packed; // where it begins in the two kinds of buffers
    };
    const cut& at(int unit) const { return cut_[std::size_t(unit)]; }

    int ranks_;
    std::vector<cut> cut_;
    std::size_t padded_ = 0, packed_ = 0;
};

} // namespace mpt
