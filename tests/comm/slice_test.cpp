// SPDX-License-Identifier: MIT
#include "mpt/comm/slice.hpp"

#include <doctest/doctest.h>

#include <cstddef>

using mpt::slice;
using mpt::slice_of;

TEST_CASE("slices follow each other, cover all, and are equal but for the last") {
    for (const int ranks : {1, 2, 3, 4, 7, 16})
        for (const std::size_t n : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 15u, 16u, 17u, 1000007u}) {
            std::size_t at = 0;
            for (int r = 0; r < ranks; ++r) {
                const slice s = slice_of(n, ranks, r);
                CHECK(s.begin == at);
                CHECK(s.size <= slice_of(n, ranks, 0).size);
                at += s.size;
            }
            CHECK(at == n);
        }
    CHECK(slice_of(10, 4, 0).size == 3);
    CHECK(slice_of(10, 4, 3).begin == 9);
    CHECK(slice_of(10, 4, 3).size == 1);
    CHECK(slice_of(5, 4, 3).size == 0); // 2, 2, 1, 0
}

TEST_CASE("sabotage: n / N rounded down leaves elements that nobody owns") {
    std::size_t owned = 0;
    for (int r = 0; r < 4; ++r) owned += 10 / 4;
    CHECK(owned != 10);
}
