// SPDX-License-Identifier: MIT
#include "mpt/dist/partition.hpp"

#include "../train/rig.hpp"
#include "mpt/dist/bucket.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

layout of_sizes(const std::vector<std::size_t>& units) {
    layout map;
    for (const std::size_t n : units) {
        map.add_unit("unit");
        map.add("x", {n}, 1);
    }
    return map;
}

} // namespace

TEST_CASE("every element has one owner, shards begin at multiples of 256") {
    for (const auto& units : {std::vector<std::size_t>{1}, {255, 256, 257}, {10, 100000, 1, 4097}})
        for (const int n : {1, 2, 3, 4, 7, 8}) {
            const layout map = of_sizes(units);
            const partition cut(map, n);
            std::vector<int> owners(map.size(), 0);
            std::size_t padded = 0, packed = 0, real = 0;
            for (int u = 0; u < cut.units(); ++u) {
                CHECK(cut.shard(u) % 256 == 0);
                // no more than 256 elements a rank are padding
                CHECK(cut.shard(u) * std::size_t(n) < units[std::size_t(u)] + 256 * std::size_t(n));
                for (int r = 0; r < n; ++r)
                    for (std::size_t i = 0; i < cut.owned(u, r); ++i) ++owners[cut.begin(u, r) + i];
                padded += cut.shard(u) * std::size_t(n);
                packed += cut.shard(u);
            }
            for (const int count : owners) REQUIRE(count == 1);
            for (int r = 0; r < n; ++r) real += cut.owned(r);
            CHECK(real == map.size());
            CHECK(cut.padded_size() == padded);
            CHECK(cut.packed_size() == packed);
        }
    CHECK(says(refusal([] { partition(of_sizes({1}), 0); }), "0 ranks"));
}

TEST_CASE("ten elements on four ranks: one rank has them all, three have padding") {
    const layout map = of_sizes({10});
    const partition cut(map, 4);
    std::vector<float> whole(cut.padded_size()), packed(cut.packed_size());
    CHECK(whole.size() == 1024);
    CHECK(cut.whole(rig::span(whole), 0).size() == 1024);
    CHECK(cut.real(rig::span(whole), 0).size() == 10);
    for (int r = 0; r < 4; ++r) {
        const pieces<float> own =
            cut.pieces_of<float>(r, [&](int u) { return cut.shard_of(rig::span(packed), u); });
        CHECK(size_of(own) == (r == 0 ? 10u : 0u));
        CHECK(own.size() == (r == 0 ? 1u : 0u));
    }
}

TEST_CASE("buckets: from the last unit down, within the limit, at least a unit each") {
    const layout map = of_sizes({100, 10, 10, 10, 500});
    const std::vector<bucket> all = buckets(map, 4, 120);
    REQUIRE(all.size() == 3);
    CHECK(all[0].first == 4); // too large, and alone
    CHECK(all[0].end == 5);
    CHECK(all[1].first == 1);
    CHECK(all[1].end == 4);
    CHECK(all[1].begin == 100);
    CHECK(all[1].size == 30);
    CHECK(all[2].first == 0);
    CHECK(buckets(map, 4).size() == 1);
    CHECK(buckets(map, 4, 1).size() == 5);
    CHECK(buckets(map, 4, 119).size() == 4); // sabotage: one byte less and a unit goes elsewhere
}
