// SPDX-License-Identifier: MIT
#include "mpt/comm/world.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

TEST_CASE("the verbs, on 1 to 8 ranks") {
    for (const int n : {1, 2, 3, 4, 7, 8})
        for (const std::size_t size : {0u, 1u, 2u, 5u, 4096u, 100003u})
            run_ranks(n, [&](communicator& comm) {
                const auto number = [](int rank, std::size_t i) {
                    return float(rank + 1) * (1 + 0.25f * float(i % 7));
                };
                std::vector<float> x(size), want(size);
                for (std::size_t i = 0; i < size; ++i) {
                    x[i] = number(comm.rank(), i);
                    for (int r = 0; r < n; ++r) want[i] = r ? want[i] + number(r, i) : number(r, i);
                }
                const std::vector<float> mine = x;
                comm.all_reduce(rig::span(x));
                CHECK(rig::same_bits(x, want));

                std::vector<float> all(size * std::size_t(n));
                comm.all_gather(rig::span(all), rig::view(mine));
                for (std::size_t i = 0; i < all.size(); ++i)
                    REQUIRE(all[i] == number(int(i / size), i % size));

                std::vector<float> part(size);
                comm.reduce_scatter(rig::span(part), rig::view(all));
                for (std::size_t i = 0; i < size; ++i)
                    REQUIRE(part[i] == float(n) * number(comm.rank(), i));

                std::vector<float> b = mine;
                comm.broadcast(rig::span(b), n - 1);
                for (std::size_t i = 0; i < size; ++i) REQUIRE(b[i] == number(n - 1, i));

                CHECK(comm.sum(comm.rank()) == n * (n - 1) / 2);
                CHECK(comm.max(comm.rank()) == n - 1);
                CHECK(comm.all(true));
                CHECK(comm.all(comm.rank() != n - 1) == false);
            });
}
