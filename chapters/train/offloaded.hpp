// SPDX-License-Identifier: MIT
// offloaded.hpp -- with --offload: the optimizer's states, and weights, outside of the device, and
// the ways of gradients to them and of weights back.
#pragma once
#include "offload_plan.hpp"
#include "options.hpp"

#include "mpt/base/memory.hpp"        // memory, buffer
#include "mpt/base/trace.hpp"         // trace, range
#include "mpt/dist/host_sums.hpp"     // host_sums, leave
#include "mpt/dist/offload.hpp"       // offload
#include "mpt/dist/offload_place.hpp" // parse_offload, make_states, make_weights
#include "mpt/dist/state_store.hpp"   // state_store
#include "mpt/dist/transfers.hpp"     // transfers
#include "mpt/dist/weight_place.hpp"  // weight_place

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
    // By memcpy, as the arena of a CPU lies in the same memory; new weights' bars are those of
    // device_weights.hpp.
    static mpt::transfer_calls calls(mpt::trace* seen) {
        mpt::transfer_calls c;
        c.out = [seen](void* to, const void* from, std::size_t n) {
            const mpt::range r(seen, mpt::lane::copy, "gradients", mpt::join("\"bytes\":", n));
            std::memcpy(to, from, n);
        };
        return c;
    }
};

/// How this rank keeps its files.
inline mpt::file_settings files_of(const options& o, int rank, mpt::trace* seen) {
    return {.folder = o.offload_dir, .rank = rank, .seen = seen};
}

/// The weights of what this rank owns, where they are in files; else nullptr. Before the strategy,
/// which fetches them.
template <class T>
std::unique_ptr<mpt::weight_place<T>>
weights_away(const options& o, mpt::memory& mem, const mpt::layout& map, const mpt::partition& cut,
             int rank, mpt::transfers& copies, mpt::trace* seen) {
    if (!weights_in_files(o)) return nullptr;
    return mpt::make_weights<T>(mpt::offload_to::file, mem, map, cut, rank, copies,
                                files_of(o, rank, seen));
}

/// Elements [begin, begin + n) of the flat buffer, which lie in one of the pieces.
template <class T>
mpt::device_span<T> part_of(const mpt::pieces<T>& all, std::size_t begin, std::size_t n) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const mpt::piece<T>& p) {
        return begin < p.begin + p.data.size();
    });
    return at->data.subspan(begin - at->begin, n);
}

/// The states of what this rank owns, on the host or in files. After the weights, which its steps
/// write: on the device, or at their place.
template <class T>
struct states_away {
    states_away(const options& o, mpt::memory& mem, const mpt::layout& map,
                const mpt::pieces<T>& mine, mpt::weight_place<T>* weights, int moments, int rank,
                mpt::transfers& copies, mpt::trace* seen)
        : store(mpt::make_states<T>(mpt::parse_offload(o.offload, o.offload_dir), mem, map, mine,
                                    moments, files_of(o, rank, seen))),
          steps(weights ? mpt::offload<T>(*weights, *store, seen)
                        : mpt::offload<T>(mem, mine, *store, copies, seen)) {}

    std::unique_ptr<mpt::state_store<T>> store;
    mpt::offload<T> steps;
};
