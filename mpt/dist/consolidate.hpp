// SPDX-License-Identifier: MIT
/// @file consolidate.hpp
/// A buffer that ranks hold in shards, whole on rank 0's host, and back.   tier 6, needs:
/// base/device_span.hpp comm/communicator.hpp dist/partition.hpp
///
/// Idea     What is saved must not tell how many ranks saved it, nor in which stage: all elements
///          in the order of the layout, without padding. Shards travel to rank 0 one by one, a
///          unit's and a rank's at a time; back the same way. Any number of ranks may read what any
///          other has written.
/// Formula  whole = for each unit, for each rank: its entries.  An entry is a parameter's element,
///          or what is kept for several, as long as no two ranks share one (shards begin at
///          multiples of 256: a block of 8-bit moments is one rank's)
///          Where the ranks' memory is a device's, rank 0 lets a part land there and copies that.
/// Costs    memory: on rank 0's host the whole buffer, on its device `landing`, which may be any
///          room that is not in use now; the others nothing.
///          traffic: each rank but 0 sends (or gets) what it owns, once
/// Breaks   a checkpoint with padding in it: no other number of ranks has the same
/// Source   microsoft/DeepSpeed 2898, 1380, 3033 (what a change of the world size broke)
/// See      partition.hpp, tests/dist/consolidate_test.cpp, chapters/train/training.hpp
#pragma once
#include "mpt/base/device_span.hpp"  // device_span, check
#include "mpt/comm/communicator.hpp" // communicator: send, recv
#include "mpt/dist/partition.hpp"    // partition

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace mpt {

/// How many entries of a buffer each rank has of each unit.
class shares {
public:
    /// entries(begin, size): of elements [begin, begin + size) of the layout.
    template <class Entries>
    shares(const partition& cut, Entries entries) : ranks_(cut.ranks()) {
        for (int u = 0; u < cut.units(); ++u)
            for (int r = 0; r < cut.ranks(); ++r)
                of_.push_back(cut.owned(u, r) ? entries(cut.begin(u, r), cut.owned(u, r)) : 0);
    }
    /// An entry an element.
    explicit shares(const partition& cut)
        : shares(cut, [](std::size_t, std::size_t size) { return size; }) {}

    int ranks() const { return ranks_; }
    int units() const { return int(of_.size()) / ranks_; }
    std::size_t of(int unit, int rank) const { return of_[std::size_t(unit * ranks_ + rank)]; }
    std::size_t total() const { // entries of all ranks
        std::size_t sum = 0;
        for (const std::size_t n : of_) sum += n;
        return sum;
    }

    /// What rank `rank` has, packed, as one span a unit.
    template <class E>
    std::vector<device_span<E>> by_unit(device_span<E> packed, int rank) const {
        std::vector<device_span<E>> parts;
        std::size_t at = 0;
        for (int u = 0; u < units(); at += of(u, rank), ++u)
            parts.push_back(packed.subspan(at, of(u, rank)));
        check(at == packed.size(), "shares: ", packed.size(), " entries on rank ", rank,
              "; by its shards they are ", at);
        return parts;
    }

private:
    int ranks_;
    std::vector<std::size_t> of_; // (units, ranks)
};

namespace consolidating {

// f(unit, rank, where in the whole it begins, entries) for all that is not empty, in this order.
template <class F>
void for_shares(const shares& cut, F f) {
    std::size_t at = 0;
    for (int u = 0; u < cut.units(); ++u)
        for (int r = 0; r < cut.ranks(); at += cut.of(u, r), ++r)
            if (cut.of(u, r) > 0) f(u, r, at, cut.of(u, r));
}

template <class E>
void check_sizes(const char* who, const communicator& comm, const shares& cut,
                 const std::vector<device_span<E>>& mine, std::size_t whole) {
    check(cut.ranks() == comm.size(), who, ": shares of ", cut.ranks(), " ranks, there are ",
          comm.size(), "; cut for these");
    check(int(mine.size()) == cut.units(), who, ": ", mine.size(), " spans for ", cut.units(),
          " units; give one a unit, empty where nothing is owned");
    for (int u = 0; u < cut.units(); ++u)
        check(mine[std::size_t(u)].size() == cut.of(u, comm.rank()), who, ": rank ", comm.rank(),
              " gives ", mine[std::size_t(u)].size(), " entries of unit ", u, ", it owns ",
              cut.of(u, comm.rank()));
    const std::size_t wanted = comm.rank() == 0 ? cut.total() : 0;
    check(whole == wanted, who, ": room for ", whole, " entries on rank ", comm.rank(), "; wanted ",
          wanted);
}

// f(where, entries) for n entries at `at`, a part at a time that fits.
template <class E, class F>
void by_parts(std::size_t n, device_span<E> landing, F f) {
    const std::size_t most = landing.empty() ? n : landing.size();
    for (std::size_t i = 0; i < n; i += most) f(i, std::min(most, n - i));
}

} // namespace consolidating

/// Copies where the host reaches the ranks' memory by itself.
struct host_copies {
    template <class E>
    void copy_to_host(std::span<E> to, device_span<const E> from) const {
        if (to.data() != from.data()) std::memcpy(to.data(), from.data(), from.bytes());
    }
    template <class E>
    void copy_to_device(device_span<E> to, std::span<const E> from) const {
        if (to.data() != from.data()) std::memcpy(to.data(), from.data(), to.bytes());
    }
};

/// whole (rank 0: cut.total(), on the host; elsewhere empty) = what all ranks own; mine: this
/// rank's, one span a unit. Every rank calls it. landing: room among the ranks' memory, as large on
/// each, that `on` (a list of operations) copies to the host; empty where that is the host's.
template <class E, class On = host_copies>
void consolidate(communicator& comm, const shares& cut,
                 const std::vector<device_span<const E>>& mine, std::span<E> whole,
                 device_span<E> landing = {}, const On& on = {}) {
    consolidating::check_sizes("consolidate", comm, cut, mine, whole.size());
    consolidating::for_shares(cut, [&](int u, int r, std::size_t at, std::size_t n) {
        const device_span<const E> own = mine[std::size_t(u)];
        if (comm.rank() == 0 && r == 0) on.copy_to_host(whole.subspan(at, n), own);
        if (r == 0 || (comm.rank() != 0 && comm.rank() != r)) return;
        consolidating::by_parts(n, landing, [&](std::size_t i, std::size_t part) {
            if (comm.rank() != 0) return comm.send<E>(own.subspan(i, part), 0);
            const std::span<E> there = whole.subspan(at + i, part);
            const auto here = landing.empty() ? device_span<E>(there.data(), part)
                                              : landing.first(part);
            comm.recv(here, r);
            on.copy_to_host(there, device_span<const E>(here));
        });
    });
}

/// The other way: what each rank owns = its part of rank 0's `whole`.
template <class E, class On = host_copies>
void distribute(communicator& comm, const shares& cut, std::span<const E> whole,
                const std::vector<device_span<E>>& mine, device_span<E> landing = {},
                const On& on = {}) {
    consolidating::check_sizes("distribute", comm, cut, mine, whole.size());
    consolidating::for_shares(cut, [&](int u, int r, std::size_t at, std::size_t n) {
        const device_span<E> own = mine[std::size_t(u)];
        if (comm.rank() == 0 && r == 0) on.copy_to_device(own, whole.subspan(at, n));
        if (r == 0 || (comm.rank() != 0 && comm.rank() != r)) return;
        consolidating::by_parts(n, landing, [&](std::size_t i, std::size_t part) {
            if (comm.rank() != 0) return comm.recv(own.subspan(i, part), 0);
            const std::span<const E> there = whole.subspan(at + i, part);
            if (landing.empty()) return comm.send<E>(device_span<const E>(there.data(), part), r);
            on.copy_to_device(landing.first(part), there);
            comm.send<E>(device_span<const E>(landing.first(part)), r);
        });
    });
}

} // namespace mpt
