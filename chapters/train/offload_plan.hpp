// SPDX-License-Identifier: MIT
// offload_plan.hpp -- with --offload: when gradients leave the device, what lies where instead, and
// what crosses in a step, by formula.
#pragma once
#include "memory_plan.hpp"
#include "options.hpp"
#include "rank_table.hpp" // steps_taken, moved

#include "mpt/base/direct_file.hpp"    // direct_file: alignment
#include "mpt/dist/file_states.hpp"    // file_settings
#include "mpt/dist/host_sums.hpp"      // sums_chunk
#include "mpt/dist/partition.hpp"      // partition
#include "mpt/dist/state_file.hpp"     // state_file: record_bytes
#include "mpt/dist/strategy_sizes.hpp" // strategy_sizes

#include <algorithm>
#include <cstddef>

/// When gradients leave the device, to meet the optimizer's states on the host.
enum class departure {
    never,    // --offload none
    by_unit,  // one rank, no --zero: as backward makes them; the device has room for three units
    by_micro, // ranks that reduce each of several micro-batches: into sums on the host; with
              // weights in files those of a single one, too: nothing of the model stays
    by_window // else what this rank owns of the sums over ranks, when they are there
};

inline departure departure_of(const options& o) {
    if (o.offload == "none") return departure::never;
    if (!shared(o)) return departure::by_unit;
    const bool sums = o.micro_batches > 1 || weights_in_files(o);
    return sums && !reduces_once(o) ? departure::by_micro : departure::by_window;
}

/// Elements of the buffers for gradients.
struct gradient_rooms {
    std::size_t micro, sum;           // on the device
    std::size_t host_micro, host_sum; // where they arrive, or are added up
};

/// n: what a strategy wants where nothing leaves.
inline gradient_rooms rooms_of(const options& o, const mpt::strategy_sizes& n) {
    const bool several = o.micro_batches > 1;
    switch (departure_of(o)) {
    case departure::by_unit: // a unit's go straight into the window's
        return {0, 0, several ? 0 : n.micro, n.sum};
    case departure::by_micro: // zero2 and zero3 let a shard go from where it was reduced
        return {o.zero >= 2 && (o.ranks > 1 || weights_in_files(o)) ? 0 : n.micro, 0, 0,
                several ? n.sum : n.micro};
    case departure::by_window:
        return {n.micro, n.sum, several ? 0 : n.owned, several ? n.owned : 0};
    default:
        return {n.micro, n.sum, 0, 0};
    }
}

//! [moved]
/// What crosses between a rank's device and its host in these steps, with `s` bytes a weight: out
/// 2 M bytes a 16-bit parameter where each micro-batch leaves, 4 for a window's sums, 2 for a
/// window of one; in 2. Gradients leave in steps that are skipped, too.
inline moved planned_moves(departure when, const mpt::strategy_sizes& n, std::size_t s,
                           int micro_batches, const steps_taken& done) {
    if (when == departure::never) return {};
    const std::size_t M = std::size_t(micro_batches);
    const std::size_t a_step = when == departure::by_unit ? M * s * n.owned
                               : when == departure::by_micro
                                   ? M * s * (M > 1 ? n.sum : n.micro) // with padding
                                   : (M > 1 ? 4 : s) * n.owned;
    return {done.steps * a_step, done.applied * s * n.owned};
}
/// ... and what comes in where weights lie in files: each for forward and for backward of every
/// micro-batch, but for unit 0, of which the rank owns `first`, where a validation has left it.
inline std::size_t planned_fetches(const mpt::strategy_sizes& n, std::size_t first, std::size_t s,
                                   int micro_batches, const steps_taken& done) {
    return s * (2 * std::size_t(micro_batches) * done.steps * n.owned - done.kept * first);
}
//! [moved]

/// Elements of the largest piece that a rank updates: its shard of a unit. In ddp all shards are
/// pieces of its own, and the first of a unit is the largest.
inline std::size_t largest_owned(const mpt::partition& cut, int stage, int rank) {
    std::size_t most = 0;
    for (int u = 0; u < cut.units(); ++u) most = std::max(most, cut.owned(u, stage > 0 ? rank : 0));
    return most;
}

/// What of a plan without --offload lies elsewhere with it, and what the ways take.
struct moving_out {
    departure when;
    bool to_files;         // states, else to the host
    std::size_t weight;    // bytes
    int moments;           // numbers of 4 bytes that the optimizer keeps of a parameter
    mpt::strategy_sizes n; // without --offload
    gradient_rooms rooms;
    std::size_t largest;   // elements: largest_owned()
    std::size_t in_flight; // by_unit: elements of units whose gradients are on the device, at most
    bool weights = false;  // are in files, too
};

/// p, the plan of this rank without --offload, becomes the one with it.
inline void move_out(memory_plan& p, const moving_out& m) {
    using mpt::kind, mpt::place;
    mpt::estimate& b = p.bytes;
    const place states = m.to_files ? place::file : place::host;
    const mpt::file_settings files;
    const std::size_t part = std::min(m.largest, files.part); // that is updated at once
    b.at(kind::master) = b.at(kind::moments) = 0;
    b.at(kind::master, states) = 4 * m.n.owned; // fp32 weights have one here, too
    b.at(kind::moments, states) = 4 * std::size_t(m.moments) * m.n.owned;
    b.at(kind::grads) = m.weight * m.rooms.micro;
    b.at(kind::sums) = 4 * m.rooms.sum;
    b.at(kind::grads, place::host) = m.weight * m.rooms.host_micro;
    b.at(kind::sums, place::host) = 4 * m.rooms.host_sum;
    if (m.when == departure::by_unit) {
        b.at(kind::comm) = m.weight * m.in_flight;
        p.why[std::size_t(kind::comm)] = "gradients of three units, until they have left";
    }
    // Two parts of new weights on their way, a chunk of gradients that are added up.
    b.at(kind::weights, place::host) = m.weights ? 0 : 2 * m.weight * part;
    if (m.when != departure::by_window) b.at(kind::temp, place::host) = m.weight * mpt::sums_chunk;
    const auto buffers = [&](std::size_t record) {
        b.at(kind::temp, place::host) +=
            std::size_t(files.buffers) * (record + mpt::direct_file::alignment);
    };
    const auto record = [](std::size_t bytes) { return mpt::state_file::record_bytes(bytes); };
    if (m.to_files) buffers(record(4 * (1 + std::size_t(m.moments)) * part));
    if (!m.weights) return;
    b.at(kind::weights, place::file) = m.weight * m.n.owned;
    buffers(m.largest ? record(m.weight * m.largest) : 0); // of shards, whole
}
