// SPDX-License-Identifier: MIT
// rank_tables.hpp -- what ranks have held and sent, beside the formulas: a line a kind.
#pragma once
#include "claims.hpp"    // claims
#include "ranks_run.hpp" // trained, rank_plan

#include <cstdio>
#include <string>
#include <vector>

/// What a strategy keeps of one kind, for each parameter.
struct kept {
    mpt::kind what;
    std::size_t bytes; // a parameter, where it is kept; 0: not at all
    bool whole;        // by every rank; else by the one that owns it
    bool padded;
};

//! [kept]
/// Of Adam in 16 bits: 16, 4 + 12/N, 2 + 14/N, 16/N bytes, and 4 of fp32 sums or 4/N.
inline std::vector<kept> kept_by(const rank_plan& p, std::size_t weight) {
    using k = mpt::kind;
    const bool several = p.M > 1, once = p.mode == mpt::reduce_mode::once, pads = p.stage > 0;
    const bool sums_only = p.stage > 1 && several && once; // no other gradient outlives a unit
    return {{k::weights, weight, p.stage < 3, pads},
            {k::grads, sums_only ? 0 : weight, p.stage < 2, pads},
            {k::master, weight < 4 ? std::size_t(4) : 0, p.stage < 1, false},
            {k::moments, 8, p.stage < 1, false},
            {k::sums, several ? std::size_t(4) : 0, p.stage < 1 || once, pads}};
}
//! [kept]

/// Prints bytes a parameter, the mean over ranks; true where all are the formula's and padding.
inline bool held_table(const std::vector<trained>& ranks, const rank_plan& p, std::size_t weight) {
    const std::size_t N = ranks.size(), P = ranks[0].P, pad = ranks[0].padded - P;
    const auto each = [&](std::size_t bytes) { return double(bytes) / double(N * P); };
    std::printf("%-18s %9s %9s %9s\n", "bytes a parameter", "formula", "padding", "measured");
    bool equal = true;
    std::size_t real_all = 0, padding_all = 0, measured_all = 0;
    const auto line = [&](const char* name, std::size_t real, std::size_t padding,
                          std::size_t measured) {
        std::printf("%-18s %9.4f %9.4f %9.4f\n", name, each(real), each(padding), each(measured));
        real_all += real, padding_all += padding, measured_all += measured;
        equal &= real + padding == measured;
    };
    for (const kept& x : kept_by(p, weight)) {
        const std::size_t ranks_with = x.whole ? N : 1; // whole copies of it, on all ranks together
        std::size_t measured = 0;
        for (const trained& t : ranks) measured += t.at(x.what);
        if (measured + x.bytes > 0)
            line(to_string(x.what), ranks_with * x.bytes * P,
                 x.padded ? ranks_with * x.bytes * pad : 0, measured);
    }
    line("in all", real_all, padding_all, measured_all);
    std::size_t flight = 0;
    for (const trained& t : ranks) flight += t.at(mpt::kind::comm);
    if (flight > 0) std::printf("%-18s %29.4f\n", "whole for a while", each(flight));
    std::printf("\n");
    return equal;
}

/// Elements a parameter that a window sends, times (N-1)/N: of gradients, of weights.
struct traffic_formula {
    std::size_t gradients, weights;
};
//! [sent]
inline traffic_formula sent_by(const rank_plan& p) {
    const std::size_t M = std::size_t(p.M), times = p.mode == mpt::reduce_mode::once ? 1 : M;
    if (p.stage == 0) return {2 * times, 0};               // all_reduce
    return {times, p.stage == 3 ? 2 * M : std::size_t(1)}; // reduce_scatter; all_gather
}
//! [sent]

/// Prints elements a parameter, the mean over ranks; true where both are the formula's.
inline bool sent_table(const std::vector<trained>& ranks, const rank_plan& p) {
    const std::size_t N = ranks.size(), P = ranks[0].P;
    const std::size_t moved = p.stage > 0 ? ranks[0].padded : P;
    const traffic_formula f = sent_by(p);
    std::size_t reduced = 0, gathered = 0;
    for (const trained& t : ranks) reduced += t.reduced.elements, gathered += t.gathered.elements;
    const auto each = [&](std::size_t n) { return double(n) / double(N * P); };
    std::printf("%-5s reduce %-5s: sends %zu + %zu times (N-1)/N = %.4f elements a parameter, "
                "%.4f with padding; measured %.4f\n",
                stage_name(p.stage), to_string(p.mode), f.gradients, f.weights,
                each((f.gradients + f.weights) * (N - 1) * P),
                each((f.gradients + f.weights) * (N - 1) * moved), each(reduced + gathered));
    return reduced == f.gradients * (N - 1) * moved && gathered == f.weights * (N - 1) * moved;
}

/// "after 12 steps all ranks have the same weights", or which rank has not, and since when.
inline bool same_weights(claims& claim, const std::vector<trained>& ranks) {
    const auto& first = ranks[0].digests;
    for (std::size_t step = 0; step < first.size(); ++step)
        for (std::size_t r = 1; r < ranks.size(); ++r)
            if (ranks[r].digests[step] != first[step])
                return claim(false, mpt::join("after step ", step + 1, " rank ", r,
                                              "'s weights are not rank 0's"));
    return claim(true, mpt::join("after each of ", ranks[0].losses.size(),
                                 " steps all ranks have the same weights, bit for bit"));
}
