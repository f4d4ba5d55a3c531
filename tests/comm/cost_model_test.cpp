// SPDX-License-Identifier: MIT
#include "mpt/comm/cost_model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

using namespace mpt;

namespace {
constexpr link slow{"a link for sums in the head", 1e-3, 1e6}; // 1 ms, and 1 ms a kB
bool is(double x, double want) { return std::abs(x - want) <= 1e-12 * want; }
} // namespace

TEST_CASE("worked by hand: 4 ranks, 8 kB, 1 ms a message and 1 ms a kB") {
    CHECK(is(slow.seconds(8000), 9e-3));
    CHECK(is(ring_seconds(slow, 4, 8000), 18e-3));   // 6 steps of 1 + 2 ms
    CHECK(is(tree_seconds(slow, 4, 8000), 36e-3));   // 4 steps of 1 + 8
    CHECK(is(leader_seconds(slow, 4, 8000), 54e-3)); // 6 of 1 + 8
    CHECK(is(owner_seconds(slow, 4, 8000), 14e-3));  // 2 of 1 + 6
    CHECK(is(tree_seconds(slow, 5, 8000), 54e-3));   // 6 steps
    // 2 servers of 2 on the same link: 2 (1 + 4), and 2 (1 + 2) for half of the bytes
    CHECK(is(servers_seconds(slow, 2, slow, 2, 8000), 16e-3));
    CHECK(!is(ring_seconds(slow, 4, 8000), 2 * 3 * 9e-3)); // sabotage: whole buffers round the ring
}

TEST_CASE("one rank takes no time") {
    for (const auto time : {ring_seconds, tree_seconds, leader_seconds, owner_seconds})
        CHECK(time(nvswitch, 1, 1e9) == 0);
    CHECK(servers_seconds(nvswitch, 1, infiniband, 1, 1e9) == 0);
}

TEST_CASE("25 MiB over 8 GPUs on a switch, and over 8 servers of 8") {
    const double bytes = 25 * 1048576.0;
    // 14 steps of 3.4 us + 3276800 bytes at 450 GB/s (7.28 us)
    CHECK(ring_seconds(nvswitch, 8, bytes) == doctest::Approx(149.5e-6).epsilon(1e-3));
    // 2 (9.6 us + 63/64 x 26214400 / 50 GB/s) flat
    CHECK(owner_seconds(infiniband, 64, bytes) == doctest::Approx(1051.4e-6).epsilon(1e-3));
    // 2 (3.4 + 50.97) us inside, and 2 (9.6 + 57.34) between with an eighth of the bytes
    CHECK(servers_seconds(nvswitch, 8, infiniband, 8, bytes) ==
          doctest::Approx(242.6e-6).epsilon(1e-3));
}

TEST_CASE("a tree wins where latency counts, a ring where bytes do; a leader nowhere") {
    CHECK(tree_seconds(infiniband, 64, 1e3) < ring_seconds(infiniband, 64, 1e3));
    CHECK(ring_seconds(infiniband, 64, 1e9) < tree_seconds(infiniband, 64, 1e9));
    for (const double bytes : {1e3, 1e6, 1e9}) {
        CHECK(leader_seconds(infiniband, 64, bytes) > tree_seconds(infiniband, 64, bytes));
        CHECK(leader_seconds(infiniband, 64, bytes) > ring_seconds(infiniband, 64, bytes));
        CHECK(servers_seconds(nvswitch, 8, infiniband, 8, bytes) <
              1.5 * owner_seconds(infiniband, 64, bytes)); // two latencies more for a few bytes
    }
    CHECK(nvswitch.bytes_per_second > nvlink.bytes_per_second);
    CHECK(nvlink.bytes_per_second > infiniband.bytes_per_second);
    CHECK(infiniband.bytes_per_second > ethernet.bytes_per_second);
}
