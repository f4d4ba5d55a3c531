// SPDX-License-Identifier: MIT
/// @file state_store.hpp
/// An optimizer's states, outside of the device, a part at a time.         tier 6, needs:
/// base/device_span.hpp base/error.hpp nn/params.hpp numeric/scalar.hpp train/blocks.hpp
///
/// Idea     An update needs the states of one weight for a moment, once a step. So they lie where
///          room is cheap, and pass through the host's memory in parts: what a rank owns, piece by
///          piece, cut at multiples of 256 elements. Where they lie is all that stores differ in.
/// Formula  states of n elements = (1 + moments) n numbers: master, m, v in fp32
/// Breaks   take() out of order: a store reads ahead what comes next
/// See      host_states.hpp, file_states.hpp (two stores), offload.hpp (who asks)
#pragma once
#include "mpt/base/device_span.hpp" // device_span
#include "mpt/base/error.hpp"       // check
#include "mpt/nn/params.hpp"        // pieces, layout
#include "mpt/numeric/scalar.hpp"   // wide_t
#include "mpt/train/blocks.hpp"     // block, blocks

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mpt {

/// States of one part, in host memory. m, v: empty where the optimizer keeps none.
template <class W>
struct state_part {
    device_span<W> master, m, v;
};

template <class T>
class state_store {
public:
    using W = wide_t<T>;
    static constexpr std::size_t grain = 256; // elements: where parts are cut, and shards

    virtual ~state_store() = default;

    /// Elements [begin, end) of which piece each part is.
    const std::vector<block>& parts() const { return parts_; }
    /// Numbers a weight beside the master.
    int moments() const { return moments_; }
    /// Elements of the largest part.
    std::size_t largest() const {
        std::size_t most = 0;
        for (const block& b : parts_) most = std::max(most, b.size());
        return most;
    }

    /// The states of part k, until give(k). Parts go round: 0 to the last, and 0 again. Before the
    /// first give(k): a master of NaN, moments of 0. Throws what went wrong with them meanwhile.
    virtual state_part<W> take(std::size_t k) = 0;
    /// Part k is done with.
    virtual void give(std::size_t k, bool changed) = 0;
    /// Returns when all that was given lies where it belongs; throws where it cannot.
    virtual void settle() {}

protected:
    /// mine: what strategy::mine() says. part: elements, a multiple of 256.
    state_store(const pieces<T>& mine, int moments, std::size_t part)
        : parts_(blocks(mine, part_size(part))), moments_(moments) {
        check(moments >= 0 && moments <= 2, "states: ", moments,
              " moments a weight, wanted 0 to 2");
    }

private:
    static std::size_t part_size(std::size_t part) {
        check(part > 0 && part % grain == 0, "states: parts of ", part,
              " elements; wanted a multiple of ", grain);
        return part;
    }
    std::vector<block> parts_;
    int moments_;
};

} // namespace mpt
