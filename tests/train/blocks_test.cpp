// SPDX-License-Identifier: MIT
#include "mpt/train/blocks.hpp"

#include "rig.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

// Pieces of these sizes, of one flat array, with gaps of 5 elements between them.
static pieces<float> cut_up(std::vector<float>& flat, const std::vector<std::size_t>& sizes) {
    pieces<float> parts;
    std::size_t at = 0;
    for (const std::size_t n : sizes) {
        parts.push_back({{flat.data() + at, n}, at});
        at += n + 5;
    }
    return parts;
}

TEST_CASE("blocks cover each element once, in order, and none is larger than asked") {
    std::vector<float> flat(2000);
    for (const std::vector<std::size_t>& sizes :
         {std::vector<std::size_t>{}, {0}, {1}, {7, 0, 64, 65, 1}, {63, 64, 129}, {997}}) {
        const pieces<float> parts = cut_up(flat, sizes);
        std::size_t piece = 0, in_piece = 0, packed = 0;
        for (const block& b : blocks(parts, 64)) {
            while (in_piece == parts[piece].data.size()) {
                ++piece;
                in_piece = 0;
            }
            CHECK(b.piece == piece);
            CHECK(b.begin == in_piece);
            CHECK(b.packed == packed);
            CHECK(b.size() >= 1);
            CHECK(b.size() <= 64);
            in_piece = b.end;
            packed += b.size();
        }
        CHECK(packed == size_of(parts));
    }
}

TEST_CASE("the pieces of a packed array lie one behind the other") {
    std::vector<float> flat(100), packed(18);
    const pieces<float> parts = cut_up(flat, {3, 0, 15});
    const pieces<float> p = pieces_of(rig::span(packed), parts);
    REQUIRE(p.size() == 3);
    CHECK(p[0].data.data() == packed.data());
    CHECK(p[2].data.data() == packed.data() + 3);
    CHECK(p[2].data.size() == 15);
    CHECK(p[2].begin == parts[2].begin);
    check_same_pieces("p", p, parts);
    CHECK(says(refusal([&] { pieces_of(rig::span(packed).first(17), parts); }),
               "17 elements for 18"));
}

TEST_CASE("lists of other elements are told apart") {
    std::vector<float> flat(100);
    const pieces<float> a = cut_up(flat, {3, 15});
    const auto against = [&](const pieces<float>& b) {
        return refusal([&] { check_same_pieces("x", a, b); });
    };
    CHECK(against(a) == "nothing");
    CHECK(says(against(cut_up(flat, {3})), "x: 2 pieces against 1"));
    CHECK(says(against(cut_up(flat, {3, 14})), "piece 1"));
    CHECK(says(against(cut_up(flat, {2, 15})), "piece 0"));
    pieces<float> moved = a;
    moved[1].begin += 1;
    CHECK(says(against(moved), "piece 1"));
}
