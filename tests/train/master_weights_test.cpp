// SPDX-License-Identifier: MIT
#include "mpt/train/master_weights.hpp"

#include "mpt/train/adamw.hpp"
#include "rig.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

layout three_units() {
    layout map;
    for (const std::size_t n : {5u, 20000u, 1u}) {
        map.add_unit("u");
        map.add("w", {n, 1}, 1);
    }
    return map;
}

template <class T>
std::size_t bytes_a_parameter() { // of all that is held between two steps, by the ledger
    const layout map = three_units();
    const std::size_t n = map.size();
    memory mem;
    const buffer<T> weights(mem, kind::weights, n, "weights"), grads(mem, kind::grads, n, "grads");
    const buffer<wide_t<T>> master(mem, kind::master, master_size<T>(n), "master"),
        m(mem, kind::moments, n, "m"), v(mem, kind::moments, n, "v");
    CHECK(mem.books.now(kind::moments) == 2 * sizeof(wide_t<T>) * n);
    CHECK(mem.books.total() % n == 0);
    return mem.books.total() / n;
}

} // namespace

TEST_CASE("100 steps of -1e-4: a bf16 weight of 1 does not move, its master does") {
    rig::machine m;
    std::vector<bf16> weights(1, bf16(1.0f));
    std::vector<float> master(1, 1.0f);
    const pieces<bf16> mine{{rig::span(weights), 0}};
    bf16 alone(1.0f);
    for (int i = 0; i < 100; ++i) {
        alone = bf16(float(alone) + -1e-4f);
        master[0] += -1e-4f;
        cast(m.on, master_of(rig::span(master), mine), mine);
    }
    CHECK(float(alone) == 1.0f);
    CHECK(master[0] == 0.98999834f);
    CHECK(float(weights[0]) == 0.98828125f);
}

TEST_CASE("bytes a parameter: 2 + 2 + 4 + 8 = 16 in 16 bits, 4 + 4 + 0 + 8 = 16 in fp32") {
    CHECK(bytes_a_parameter<fp16>() == 2 + 2 + 12);
    CHECK(bytes_a_parameter<bf16>() == 2 + 2 + 12);
    CHECK(bytes_a_parameter<float>() == 4 + 4 + 8);
    CHECK(bytes_a_parameter<double>() == 8 + 8 + 16);
    CHECK(master_size<fp16>(7) == 7);
    CHECK(master_size<float>(7) == 0);
}

TEST_CASE_TEMPLATE("a cast rounds each element once, whole pieces and only them", T, fp16, bf16) {
    const layout map = three_units();
    rig::machine m;
    const std::vector<float> master = rig::numbers<float>(1, map.size(), 1);
    std::vector<T> weights(map.size() + 1, T(7.0f));
    cast(m.on, rig::by_unit<const float>(map, master.data()), rig::by_unit<T>(map, weights.data()));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < map.size(); ++i) wrong += weights[i].bits != T(master[i]).bits;
    CHECK(wrong == 0);
    CHECK(float(weights.back()) == 7);
    // sabotage: a cast that leaves out a piece
    std::vector<T> partly(map.size(), T(7.0f));
    pieces<const float> from = rig::by_unit<const float>(map, master.data());
    pieces<T> to = rig::by_unit<T>(map, partly.data());
    from.pop_back();
    to.pop_back();
    cast(m.on, from, to);
    CHECK(partly.back().bits != weights[map.size() - 1].bits);

    std::vector<float> back(map.size()); // up again: exact
    cast(m.on, rig::by_unit<T>(map, weights.data()), rig::by_unit<float>(map, back.data()));
    wrong = 0;
    for (std::size_t i = 0; i < map.size(); ++i) wrong += back[i] != float(weights[i]);
    CHECK(wrong == 0);
}

TEST_CASE("fp32 weights are their own master, and a cast between the two touches nothing") {
    const layout map = three_units();
    rig::machine m;
    std::vector<float> weights = rig::numbers<float>(1, map.size(), 1);
    const std::vector<float> before = weights;
    const pieces<float> mine = rig::by_unit<float>(map, weights.data());
    const pieces<float> master = master_of<float>({}, mine);
    for (std::size_t p = 0; p < mine.size(); ++p)
        CHECK(master[p].data.data() == mine[p].data.data());
    cast(m.on, master, mine);
    CHECK(rig::same_bits(weights, before));
    std::vector<float> own(map.size());
    CHECK(says(refusal([&] { master_of(rig::span(own), mine); }), "their own master"));
    std::vector<fp16> half(map.size());
    CHECK(says(refusal([&] {
                   master_of(rig::span(own).first(3), rig::by_unit<fp16>(map, half.data()));
               }),
               "3 elements for 20006"));
}
