// SPDX-License-Identifier: MIT
/// @file host_weights.hpp
/// A rank's part of the weights in the host's memory.                      tier 6, needs:
/// base/memory.hpp dist/partition.hpp dist/transfers.hpp dist/weight_place.hpp
///
/// Idea     The buffer of shards that ZeRO-3 has on the device, on the host: an update writes its
///          weights where they stay, and a shard is copied to the device when its unit is gathered.
/// Formula  host bytes = sizeof(T) a parameter / N, padded;  device: none
/// Costs    traffic: sizeof(T) (owned and padding) to the device for each gathering
/// See      weight_place.hpp, zero3.hpp, tests/dist/weight_place_test.cpp
#pragma once
#include "mpt/base/memory.hpp"       // memory, buffer
#include "mpt/dist/partition.hpp"    // partition
#include "mpt/dist/transfers.hpp"    // transfers
#include "mpt/dist/weight_place.hpp" // weight_place

#include <cstddef>

namespace mpt {

template <class T>
class host_weights : public weight_place<T> {
public:
    /// `copies` outlives it.
    host_weights(memory& mem, const partition& cut, int rank, transfers& copies)
        : cut_(cut), copies_(copies),
          all_(mem, kind::weights, cut.packed_size(), "weights", place::host) {
        this->mine_ = cut_.template pieces_of<T>(
            rank, [this](int u) { return cut_.shard_of(all_.span(), u); });
    }

    device_span<T> room(std::size_t, const block& part) override {
        return this->mine_[part.piece].data.subspan(part.begin, part.size());
    }
    void send(std::size_t, const block&) override {}
    void settle() override {}

    void fetch(int unit, device_span<T> to) override {
        // started, not called: kernels of until now may still use the memory of `to`
        copies_.start([&] { copies_.template in<T>(to, cut_.shard_of(all_.span(), unit)); }).wait();
    }

private:
    partition cut_;
    transfers& copies_;
    buffer<T> all_; // packed shards
};

} // namespace mpt
