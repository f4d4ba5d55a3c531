// SPDX-License-Identifier: MIT
// offloaded.hpp -- with --offload: the optimizer's states outside of the device, and the ways of
// gradients to them and of weights back.
#pragma once
#include "offload_plan.hpp"
#include "options.hpp"

#include "mpt/base/memory.hpp"        // memory, buffer
#include "mpt/base/trace.hpp"         // trace, range
#include "mpt/dist/host_sums.hpp"     // host_sums, leave
#include "mpt/dist/offload.hpp"       // offload
#include "mpt/dist/offload_place.hpp" // parse_offload, make_states
#include "mpt/dist/state_store.hpp"   // state_store
#include "mpt/dist/transfers.hpp"     // transfers

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>

/// The gradients' way to the host. Before the strategy, which uses it.
template <class T>
struct gradients_away {
    gradients_away(const options& o, const gradient_rooms& n, mpt::memory& mem, mpt::trace* seen)
        : when(departure_of(o)), copies(calls(seen)),
          micro(mem, mpt::kind::grads, n.host_micro, "gradients", mpt::place::host),
          sum(mem, mpt::kind::sums, n.host_sum, "fp32 sums of gradients", mpt::place::host) {
        if (when == departure::by_micro) adder.emplace(mem, copies);
    }
    /// What the strategy writes, of these buffers and the device's.
    mpt::gradients<T> written(mpt::device_span<T> device_micro,
                              mpt::device_span<float> device_sum) {
        return {when == departure::by_unit ? micro.span() : device_micro,
                when == departure::by_window ? device_sum : sum.span()};
    }
    /// What the strategy's finish() gave, on the host.
    mpt::owned_gradients<T> arrived(const mpt::owned_gradients<T>& g) {
        return when == departure::by_window ? mpt::leave(copies, g, micro.span(), sum.span()) : g;
    }

    departure when;
    mpt::transfers copies;
    std::optional<mpt::host_sums<T>> adder; // by_micro: what the strategy adds gradients up with
    mpt::buffer<T> micro;
    mpt::buffer<float> sum;

private:
    // By memcpy, as the arena of a CPU lies in the same memory; weights' bars are offload's own.
    static mpt::transfer_calls calls(mpt::trace* seen) {
        mpt::transfer_calls c;
        c.out = [seen](void* to, const void* from, std::size_t n) {
            const mpt::range r(seen, mpt::lane::copy, "gradients", mpt::join("\"bytes\":", n));
            std::memcpy(to, from, n);
        };
        return c;
    }
};

/// The states of what this rank owns, on the host or in files. After the weights, which its steps
/// write.
template <class T>
struct states_away {
    states_away(const options& o, mpt::memory& mem, const mpt::layout& map,
                const mpt::pieces<T>& mine, int moments, int rank, mpt::transfers& copies,
                mpt::trace* seen)
        : mine(mine),
          store(mpt::make_states<T>(mpt::parse_offload(o.offload, o.offload_dir), mem, map, mine,
                                    moments,
                                    {.folder = o.offload_dir, .rank = rank, .seen = seen})),
          steps(mem, mine, *store, copies, seen) {}

    /// The weights of elements [begin, begin + n), which lie in one piece.
    mpt::device_span<T> weights(std::size_t begin, std::size_t n) const {
        const auto at = std::find_if(mine.begin(), mine.end(), [&](const mpt::piece<T>& p) {
            return begin < p.begin + p.data.size();
        });
        return at->data.subspan(begin - at->begin, n);
    }

    mpt::pieces<T> mine;
    std::unique_ptr<mpt::state_store<T>> store;
    mpt::offload<T> steps;
};
