// SPDX-License-Identifier: MIT
/// @file leaving_rank.hpp
/// The strategy of a rank that is alone, whose gradients do not stay.      tier 6, needs:
/// base/memory.hpp comm/handle.hpp dist/host_sums.hpp dist/one_rank.hpp dist/transfers.hpp
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp
///
/// Idea     Backward makes gradients unit by unit, and an offloaded update wants them on the host.
///          So the device has room for three units only: unit 0, whose gradient is open from the
///          first to the last moment where the embedding is tied to the head, and two that take
///          turns: one is filled while the other leaves.
/// Formula  device bytes = sizeof(T) (unit 0 + largest odd unit + largest other even unit), against
///          (sizeof(T) + 4) a parameter;  bytes out = sizeof(T) M a parameter in a window of M
/// Breaks   a slot that is filled again before its last gradient has left
/// Source   Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840, section 4.1 (gradients leave at once)
/// See      host_sums.hpp (strategies of many ranks), tests/dist/leaving_rank_test.cpp
#pragma once
#include "mpt/base/memory.hpp"    // memory, buffer
#include "mpt/comm/handle.hpp"    // handle
#include "mpt/dist/host_sums.hpp" // host_sums
#include "mpt/dist/one_rank.hpp"  // one_rank
#include "mpt/dist/transfers.hpp" // transfers
#include "mpt/nn/cpu.hpp"         // cpu
#include "mpt/nn/params.hpp"      // layout
#include "mpt/nn/strategy.hpp"    // gradients, owned_gradients

#include <algorithm>
#include <cstddef>
#include <string>

namespace mpt {

/// Its gradients<T> lie on the host: `micro` for a window of one micro-batch, else `sum`, all
/// parameters long; the other is empty.
template <class T, class On = cpu>
class leaving_rank : public one_rank<T, On> {
public:
    /// All outlive the strategy.
    leaving_rank(const On& on, const layout& map, memory& mem, transfers& copies)
        : one_rank<T, On>(on, map), map_(map), copies_(copies), sums_(mem, copies) {
        std::size_t sizes[3] = {};
        for (int u = 0; u < int(map.units.size()); ++u) {
            std::size_t& most = sizes[slot_of(u)];
            most = std::max(most, map.units[std::size_t(u)].size());
        }
        for (int i = 0; i < 3; ++i)
            slots_[i].room = buffer<T>(mem, kind::comm, sizes[i], "gradients of a unit");
    }

    device_span<T> collect(gradients<T>&, int unit) override {
        slot& s = slots_[slot_of(unit)];
        s.way.wait(); // what lies there has left
        check(s.unit < 0 || s.unit == unit, "leaving_rank: unit ", unit, " begins before unit ",
              s.unit, " is ready; finish a unit before the second one behind it");
        s.unit = unit;
        return s.room.span().first(map_.units[std::size_t(unit)].size());
    }

    void ready(gradients<T>& grads, int unit, int micro) override {
        slot& s = slots_[slot_of(unit)];
        check(s.unit == unit, "leaving_rank: unit ", unit, " is ready that was not collected");
        s.unit = -1;
        const unit_info& u = map_.units[std::size_t(unit)];
        const device_span<T> from = s.room.span().first(u.size());
        if (grads.sum.empty())
            s.way = copies_.start([this, from, to = grads.micro.subspan(u.begin, u.size())] {
                copies_.template out<T>(to, from);
            });
        else
            s.way = copies_.start([this, from, to = grads.sum.subspan(u.begin, u.size()),
                                   first = micro == 0] { sums_.add(to, from, first); });
    }

    owned_gradients<T> finish(gradients<T>& grads) override {
        for (slot& s : slots_) s.way.wait();
        return one_rank<T, On>::finish(grads);
    }

private:
    struct slot {
        buffer<T> room;
        int unit = -1; // whose gradient is being made here
        handle way;    // of the last one that was
    };
    static int slot_of(int unit) { return unit == 0 ? 0 : 1 + unit % 2; }

    const layout& map_;
    transfers& copies_;
    host_sums<T> sums_;
    slot slots_[3];
};

} // namespace mpt
