// SPDX-License-Identifier: MIT
/// @file device_weights.hpp
/// New weights of an offloaded update on their way to the device.          tier 6, needs:
/// base/memory.hpp base/trace.hpp comm/handle.hpp dist/transfers.hpp dist/weight_place.hpp
///
/// Idea     The update of a part writes its weights into one of two buffers while those of the part
///          before travel from the other.
/// Formula  host bytes = 2 parts;  traffic = sizeof(T) a parameter owned
/// Source   Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840, section 5.1 (copies under it)
/// See      offload.hpp, tests/dist/offload_test.cpp
#pragma once
#include "mpt/base/memory.hpp"       // memory, buffer
#include "mpt/base/trace.hpp"        // trace, range
#include "mpt/comm/handle.hpp"       // handle
#include "mpt/dist/transfers.hpp"    // transfers
#include "mpt/dist/weight_place.hpp" // weight_target

#include <cstddef>
#include <utility>

namespace mpt {

template <class T>
class device_weights : public weight_target<T> {
public:
    /// mine: as strategy::mine() says. largest: elements of a part. All outlive it.
    device_weights(memory& mem, pieces<T> mine, std::size_t largest, transfers& copies,
                   mpt::trace* seen = nullptr)
        : weight_target<T>(std::move(mine)), copies_(copies), seen_(seen) {
        for (slot& s : slots_)
            s.weights = buffer<T>(mem, kind::weights, largest, "weights on their way", place::host);
    }

    device_span<T> room(std::size_t k, const block& part) override {
        slot& s = slots_[k % 2];
        s.way.wait(); // the weights of part k - 2 have left it
        return s.weights.span().first(part.size());
    }
    void send(std::size_t k, const block& part) override {
        slot& s = slots_[k % 2];
        const device_span<T> to = this->mine_[part.piece].data.subspan(part.begin, part.size());
        s.way = copies_.start([this, k, to, from = s.weights.span().first(part.size())] {
            const range r(seen_, lane::copy, "weights", join("\"part\":", k));
            copies_.template in<T>(to, from);
        });
    }
    void settle() override {
        for (slot& s : slots_) s.way.wait();
    }

private:
    struct slot {
        buffer<T> weights;
        handle way; // of its weights to the device
    };
    transfers& copies_;
    mpt::trace* seen_;
    slot slots_[2];
};

} // namespace mpt
