// SPDX-License-Identifier: MIT
/// @file host_states.hpp
/// An optimizer's states in the host's memory (ZeRO-Offload).              tier 6, needs:
/// base/memory.hpp dist/state_store.hpp nn/params.hpp
///
/// Idea     The host has several times the device's memory, and the update does little arithmetic
///          a byte: it runs where the states are, and only gradients and weights travel.
/// Formula  host bytes = 4 (1 + moments) a parameter owned: 12 with Adam; device: none
/// Source   Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840, section 3 (which parts to move)
/// See      offload.hpp, tests/dist/offload_test.cpp
#pragma once
#include "mpt/base/memory.hpp"      // memory, buffer
#include "mpt/dist/state_store.hpp" // state_store, state_part
#include "mpt/nn/params.hpp"        // pieces, size_of

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mpt {

template <class T>
class host_states : public state_store<T> {
public:
    using W = wide_t<T>;

    host_states(memory& mem, const pieces<T>& mine, int moments, std::size_t part = 1 << 18)
        : state_store<T>(mine, moments, part),
          master_(mem, kind::master, size_of(mine), "master weights", place::host),
          m_(mem, kind::moments, moments > 0 ? size_of(mine) : 0, "first moments", place::host),
          v_(mem, kind::moments, moments > 1 ? size_of(mine) : 0, "second moments", place::host) {
        std::fill_n(master_.host_span().begin(), master_.size(), W(NAN));
        std::fill_n(m_.host_span().begin(), m_.size(), W(0));
        std::fill_n(v_.host_span().begin(), v_.size(), W(0));
    }

    state_part<W> take(std::size_t k) override {
        const block& b = this->parts()[k];
        const auto part = [&](buffer<W>& x) {
            return x.size() ? x.span().subspan(b.packed, b.size()) : device_span<W>();
        };
        return {part(master_), part(m_), part(v_)};
    }
    void give(std::size_t, bool) override {}

private:
    buffer<W> master_, m_, v_; // packed: one piece behind the other
};

} // namespace mpt
