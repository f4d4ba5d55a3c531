// SPDX-License-Identifier: MIT
/// @file host_sums.hpp
/// Gradients leave the device, and are added up on the host.               tier 6, needs:
/// base/device_span.hpp base/memory.hpp base/thread_pool.hpp dist/transfers.hpp nn/cpu.hpp
/// nn/params.hpp nn/strategy.hpp train/grad_accum.hpp
///
/// Idea     A strategy adds gradients of a micro-batch to the window's by accumulate(on, sum, g).
///          With host_sums as its `on` the sums lie on the host: a chunk at a time the gradients
///          are copied out and added there, as soon as the strategy has them, bucket by bucket
///          during backward; the device holds no sums. leave() is for the other way: sums stay on
///          the device, and go once, at the window's end.
/// Formula  bytes out a window of M, a parameter owned: sizeof(T) M, or 4 once (sizeof(T) if M = 1)
/// Costs    host: a chunk of gradients; the sums are the caller's, 4 bytes a parameter owned
/// See      transfers.hpp, grad_accum.hpp (the same bits), tests/dist/offload_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span, device_view
#include "mpt/base/memory.hpp"      // memory, buffer
#include "mpt/base/thread_pool.hpp" // thread_pool
#include "mpt/dist/transfers.hpp"   // transfers
#include "mpt/nn/cpu.hpp"           // cpu
#include "mpt/nn/params.hpp"        // pieces
#include "mpt/nn/strategy.hpp"      // owned_gradients
#include "mpt/train/grad_accum.hpp" // accumulate

#include <algorithm>
#include <cstddef>

namespace mpt {

inline constexpr std::size_t sums_chunk = 1 << 16; // elements that are copied at once

/// One caller at a time, as of a strategy.
template <class T>
class host_sums {
public:
    /// Both outlive it. chunk: elements that are copied at once.
    host_sums(memory& mem, transfers& copies, std::size_t chunk = sums_chunk)
        : copies_(copies), one_(1), on_(one_, mem, 0),
          room_(mem, kind::temp, chunk, "gradients on their way", place::host) {}

    /// sum (n, host) = grads (n, device) where `first`, else sum + grads.
    void add(device_span<float> sum, device_view<T> grads, bool first) const {
        for (std::size_t i = 0; i < grads.size(); i += room_.size()) {
            const std::size_t n = std::min(room_.size(), grads.size() - i);
            const device_span<T> here(const_cast<T*>(room_.span().data()), n);
            copies_.template out<T>(here, grads.subspan(i, n));
            accumulate<T>(on_, sum.subspan(i, n), here, first);
        }
    }

private:
    transfers& copies_;
    thread_pool one_; // the caller alone: others compute
    cpu on_;
    buffer<T> room_;
};

template <class T>
void accumulate(const host_sums<T>& on, device_span<float> sum, device_view<T> grads, bool first) {
    on.add(sum, grads, first);
}

/// The gradients of a window, as finish() gave them, on the host: in `micro` or `sum`, packed,
/// whichever they are in. Waits.
template <class T>
owned_gradients<T> leave(transfers& copies, const owned_gradients<T>& own, device_span<T> micro,
                         device_span<float> sum) {
    const auto out = [&]<class G>(const pieces<const G>& from, device_span<G> to) {
        pieces<const G> there;
        std::size_t at = 0;
        for (const piece<const G>& p : from) {
            const device_span<G> room = to.subspan(at, p.data.size());
            copies.out<G>(room, p.data);
            there.push_back({room, p.begin});
            at += p.data.size();
        }
        return there;
    };
    return {out(own.micro, micro), out(own.sum, sum)};
}

} // namespace mpt
