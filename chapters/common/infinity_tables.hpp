// SPDX-License-Identifier: MIT
// infinity_tables.hpp -- what a run from files holds on device, host and disk, and what a step
// reads and writes, beside the formulas.
#pragma once
#include "infinity_run.hpp" // infinity_run
#include "ranks_run.hpp"    // trained: what a plain run needs
#include "watched_disk.hpp" // watched_disk: bytes

#include <algorithm>
#include <cstdio>

/// `plain`: a run of the same model and batch, whose activations, scratch and batch are the same.
template <class T>
bool held_table(const infinity_run<T>& run, const infinity_plan& p, const trained& plain) {
    //! [held]
    const mpt::partition& cut = run.cut;
    const std::size_t P = run.model.map.size(), U = cut.shard(0), B = cut.shard(1); // padded
    const auto buffers = [&](std::size_t bytes) {
        return std::size_t(p.buffers) * (mpt::state_file::record_bytes(bytes) + 4096);
    };
    const std::size_t on_device[] = {std::max(2 * U + B, U + 4 * B) * sizeof(T),
                                     plain.at(mpt::kind::activations), plain.at(mpt::kind::temp),
                                     plain.at(mpt::kind::data)};
    const std::size_t n = run.model.map.units[1].size(); // the largest
    const std::size_t chunk = sizeof(T) << 16;           // of gradients on their way
    const std::size_t on_host[] = {4 * cut.packed_size(), buffers(2 * n) + buffers(12 * n) + chunk};
    //! [held]
    const auto books = [&](mpt::kind k, mpt::place where) { return run.mem.books.peak(k, where); };
    bool equal = true;
    std::printf("%-8s %-28s %10s %10s\n", "place", "bytes", "measured", "formula");
    const auto row = [&](const char* where, const char* what, std::size_t found, std::size_t said) {
        std::printf("%-8s %-28s %10zu %10zu\n", where, what, found, said);
        equal &= found == said;
    };
    row("device", "units at hand", books(mpt::kind::comm, mpt::place::device), on_device[0]);
    row("device", "activations", books(mpt::kind::activations, mpt::place::device), on_device[1]);
    row("device", "their gradients, scratch", books(mpt::kind::temp, mpt::place::device),
        on_device[2]);
    row("device", "batch", books(mpt::kind::data, mpt::place::device), on_device[3]);
    row("host", "fp32 sums", books(mpt::kind::sums, mpt::place::host), on_host[0]);
    row("host", "buffers", books(mpt::kind::temp, mpt::place::host), on_host[1]);
    row("file", "weights", books(mpt::kind::weights, mpt::place::file), 2 * P);
    row("file", "master weights", books(mpt::kind::master, mpt::place::file), 4 * P);
    row("file", "moments", books(mpt::kind::moments, mpt::place::file), 8 * P);
    const std::size_t device = run.mem.books.peak_total();
    row("device", "all", device, on_device[0] + on_device[1] + on_device[2] + on_device[3]);
    return equal;
}

template <class T>
bool moved_table(const infinity_run<T>& run, const infinity_plan& p, const watched_disk& disk) {
    //! [moved]
    std::size_t weights = 0, states = 0, M = std::size_t(p.M);
    for (const mpt::unit_info& u : run.model.map.units) { // one record each
        weights += mpt::state_file::record_bytes(2 * u.size());
        states += mpt::state_file::record_bytes(12 * u.size());
    }
    const watched_disk::bytes w = disk.of(true), s = disk.of(false);
    const bool equal = w.read == 2 * M * weights && w.written == weights && s.read == states &&
                       s.written == states;
    //! [moved]
    const double P = double(run.model.map.size());
    std::printf("\nbytes a parameter and step    read  written   formula\nweights %26.4f %8.4f   "
                "%zu and 2\nmaster, moments %18.4f %8.4f   12 and 12\nseals and padding: %.4f of "
                "weights, %.4f of states\n\n",
                double(w.read) / P, double(w.written) / P, 4 * M, double(s.read) / P,
                double(s.written) / P, double(weights) / P - 2, double(states) / P - 12);
    return equal;
}
