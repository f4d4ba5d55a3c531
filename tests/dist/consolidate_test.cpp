// SPDX-License-Identifier: MIT
#include "mpt/dist/consolidate.hpp"

#include "../train/rig.hpp"
#include "mpt/comm/world.hpp"
#include "mpt/train/block_moments.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

using namespace mpt;

namespace {

layout three_units() { // one that many ranks share, one that only the first has, one in between
    layout map;
    map.add_unit("first");
    map.tensors[std::size_t(map.add("a", {40, 200}, 1))].looked_up = true; // in fp32
    map.add("b", {3}, 0);
    map.add_unit("middle");
    map.add("c", {1}, 0);
    map.add_unit("last");
    map.add("d", {4099, 1}, 1); // in 8 bits, from an odd place on
    map.add("e", {5000}, 0);
    return map;
}

// Entries of a buffer of 8-bit moments: those of all that a rank owns, one span a unit.
shares shares_of(const layout& map, const partition& cut, std::size_t moment_sizes::*entries) {
    return shares(cut, [&](std::size_t begin, std::size_t size) {
        return sizes_of_moments(map, pieces<float>{{{nullptr, size}, begin}}).*entries;
    });
}

// This rank's part of a whole, packed: by hand, entry by entry.
template <class E>
std::vector<E> part_of(const shares& cut, const std::vector<E>& whole, int rank) {
    std::vector<E> mine;
    std::size_t at = 0;
    for (int u = 0; u < cut.units(); ++u)
        for (int r = 0; r < cut.ranks(); ++r)
            for (std::size_t i = 0; i < cut.of(u, r); ++i, ++at)
                if (r == rank) mine.push_back(whole[at]);
    return mine;
}

template <class E>
std::vector<device_span<const E>> readable(const std::vector<device_span<E>>& parts) {
    return {parts.begin(), parts.end()};
}

template <class E>
std::vector<E> saved_by(int n, const layout& map, std::size_t moment_sizes::*entries,
                        const std::vector<E>& whole) {
    std::vector<E> found(whole.size());
    run_ranks(n, [&](communicator& comm) {
        const partition cut(map, n);
        const shares who = entries ? shares_of(map, cut, entries) : shares(cut);
        CHECK(who.total() == whole.size());
        std::vector<E> mine = part_of(who, whole, comm.rank());
        const bool first = comm.rank() == 0;
        std::vector<E> landing(n % 2 ? 97 : 0); // odd worlds: by parts, as from a device
        consolidate<E>(comm, who, readable(who.by_unit(rig::span(mine), comm.rank())),
                       first ? std::span<E>(found) : std::span<E>(), rig::span(landing));
        const std::size_t sent = comm.sent.of(verb::send).elements; // what it owns, once
        CHECK(sent == (first ? 0 : mine.size()));
    });
    return found;
}

template <class E>
void read_by(int m, const layout& map, std::size_t moment_sizes::*entries,
             const std::vector<E>& whole) {
    run_ranks(m, [&](communicator& comm) {
        const partition cut(map, m);
        const shares who = entries ? shares_of(map, cut, entries) : shares(cut);
        const std::vector<E> want = part_of(who, whole, comm.rank());
        std::vector<E> mine(want.size()), landing(m % 2 ? 101 : 0);
        distribute<E>(comm, who,
                      comm.rank() == 0 ? std::span<const E>(whole) : std::span<const E>(),
                      who.by_unit(rig::span(mine), comm.rank()), rig::span(landing));
        CHECK(rig::same_bits(mine, want));
    });
}

std::string refusal(int n, const std::function<void(communicator&)>& body) {
    try {
        run_ranks(n, body);
    } catch (const error& e) {
        return e.what();
    }
    return "";
}

} // namespace

TEST_CASE("what n ranks save, m ranks read: 25 pairs, elements of all types") {
    const layout map = three_units();
    const std::vector<float> wide = rig::numbers<float>(1, map.size(), 1);
    const std::vector<fp16> low = rig::numbers<fp16>(2, map.size(), 1);
    for (const int n : {1, 2, 3, 4, 8})
        for (const int m : {1, 2, 3, 4, 8}) {
            const std::vector<float> saved = saved_by<float>(n, map, {}, wide);
            CHECK(rig::same_bits(saved, wide)); // in the layout's order, without padding
            read_by<float>(m, map, {}, saved);
            const std::vector<fp16> weights = saved_by<fp16>(n, map, {}, low);
            CHECK(rig::same_bits(weights, low));
            read_by<fp16>(m, map, {}, weights);
        }
}

TEST_CASE("8-bit moments: codes, blocks and the rest lie as on one rank, whoever saves them") {
    const layout map = three_units();
    const moment_sizes all = sizes_of_moments(map, pieces<float>{{{nullptr, map.size()}, 0}});
    REQUIRE(all.codes == 4099 + 5000);
    REQUIRE(all.wide == map.size() - all.codes);
    std::vector<std::uint8_t> codes(all.codes);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::uint8_t(i * 7 + i / 251);
    const std::vector<float> absmax = rig::numbers<float>(3, all.blocks, 1),
                             rest = rig::numbers<float>(4, all.wide, 1);
    for (const int n : {1, 2, 3, 4, 8})
        for (const int m : {1, 2, 3, 4, 8}) {
            CHECK(saved_by(n, map, &moment_sizes::codes, codes) == codes);
            CHECK(saved_by(n, map, &moment_sizes::blocks, absmax) == absmax);
            CHECK(saved_by(n, map, &moment_sizes::wide, rest) == rest);
            read_by(m, map, &moment_sizes::codes, codes);
            read_by(m, map, &moment_sizes::blocks, absmax);
            read_by(m, map, &moment_sizes::wide, rest);
        }
}

TEST_CASE("10 elements on 4 ranks come back as 10 on 3: padding is nowhere") {
    layout map;
    map.add_unit("unit");
    map.add("x", {10}, 0);
    std::vector<float> ten(10);
    std::iota(ten.begin(), ten.end(), 1.0f);
    const std::vector<float> saved = saved_by<float>(4, map, {}, ten);
    CHECK(saved == ten);
    read_by<float>(3, map, {}, saved);
}

TEST_CASE("what does not fit is refused, and the others end with it") {
    const layout map = three_units();
    // sabotage: a shard with its padding, as a strategy keeps it
    const std::string padded = refusal(3, [&](communicator& comm) {
        const partition cut(map, 3);
        std::vector<float> mine(cut.packed_size()), whole(comm.rank() ? 0 : map.size());
        std::vector<device_span<const float>> parts;
        for (int u = 0; u < cut.units(); ++u) parts.push_back(cut.shard_of(rig::view(mine), u));
        consolidate<float>(comm, shares(cut), parts, whole);
    });
    CHECK(padded.find("entries of unit") != padded.npos);
    CHECK(padded.find("rank ") == 0);
    const std::string room = refusal(2, [&](communicator& comm) {
        const partition cut(map, 2);
        const shares who(cut);
        std::vector<float> mine(cut.owned(comm.rank())), whole(map.size()); // on rank 1, too
        consolidate<float>(comm, who, readable(who.by_unit(rig::span(mine), comm.rank())), whole);
    });
    CHECK(room.find("rank 1: consolidate: room for") == 0);
    CHECK(refusal(2, [&](communicator& comm) {
              const shares other(partition(map, 3));
              std::vector<float> mine;
              consolidate<float>(comm, other, {}, mine);
          }).find("shares of 3 ranks, there are 2") != std::string::npos);
    const std::string lost = refusal(3, [&](communicator& comm) { // one has ended before
        const partition cut(map, 3);
        const shares who(cut);
        std::vector<float> mine(cut.owned(comm.rank())), whole(comm.rank() ? 0 : map.size());
        check(comm.rank() != 2, "its memory is full");
        consolidate<float>(comm, who, readable(who.by_unit(rig::span(mine), comm.rank())), whole);
    });
    CHECK(lost == "rank 2: its memory is full");
}
