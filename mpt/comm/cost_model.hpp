// SPDX-License-Identifier: MIT
/// @file cost_model.hpp
/// How long an all_reduce takes, before there is a cluster.                tier 2, needs: std only
///
/// Idea     A message of b bytes takes alpha + b beta: a latency, and the time of its bytes. A
///          collective is a number of steps in which messages travel at the same time.
/// Formula  N ranks, S bytes:  ring 2 (N-1) (alpha + S/N beta);  leader 2 (N-1) (alpha + S beta);
///          tree 2 ceil(log2 N) (alpha + S beta);  owner 2 (alpha + (N-1)/N S beta), whose
///          messages do not wait for each other;  servers: owner inside, owner between with S / L
/// Breaks   taken for measurements: links are shared, switches add up inside the network, programs
///          wait. It tells which algorithm wins where, and by how much at most
/// Source   Hockney 1994, The communication challenge for MPP; latencies: NCCL's own model,
///          src/graph/tuning.cc (ring, simple protocol); bandwidths: NVIDIA on the H100: 18 links
///          of 25 GB/s each way, two cards by a bridge 300; NDR 400 Gb/s; Ethernet 100 Gb/s
/// See      ring.hpp, tree.hpp, leader.hpp, hierarchical.hpp, tests/comm/cost_model_test.cpp
#pragma once
#include <cmath>

namespace mpt {

struct link {
    const char* name;
    double alpha;            // seconds a message
    double bytes_per_second; // each way, of one rank: 1 / beta

    double seconds(double bytes) const { return alpha + bytes / bytes_per_second; }
};
inline constexpr link nvlink{"NVLink 4, a bridge of two", 3.4e-6, 300e9};
inline constexpr link nvswitch{"NVSwitch, NVLink 4", 3.4e-6, 450e9};
inline constexpr link infiniband{"InfiniBand NDR", 9.6e-6, 50e9};
inline constexpr link ethernet{"Ethernet, 100 Gb/s", 9.6e-6, 12.5e9};

// Seconds of an all_reduce of `bytes` over `ranks` that this link connects.

inline double ring_seconds(const link& by, int ranks, double bytes) {
    return 2 * (ranks - 1) * by.seconds(bytes / ranks);
}
inline double tree_seconds(const link& by, int ranks, double bytes) {
    return 2 * std::ceil(std::log2(ranks)) * by.seconds(bytes);
}
inline double leader_seconds(const link& by, int ranks, double bytes) {
    return 2 * (ranks - 1) * by.seconds(bytes);
}
inline double owner_seconds(const link& by, int ranks, double bytes) {
    return ranks == 1 ? 0 : 2 * by.seconds(bytes * (ranks - 1) / ranks);
}
/// `each` ranks in each of `count` servers.
inline double servers_seconds(const link& inside, int each, const link& between, int count,
                              double bytes) {
    return owner_seconds(inside, each, bytes) + owner_seconds(between, count, bytes / each);
}

} // namespace mpt
