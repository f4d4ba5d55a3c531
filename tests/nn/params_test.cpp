// SPDX-License-Identifier: MIT
#include "mpt/nn/params.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace mpt;

namespace {
layout three_units() {
    layout map;
    map.add_unit("a");
    map.add("a.weight", {3, 5}, 0.5f);
    map.add("a.bias", {5}, 0, 1);
    map.add_unit("b");
    map.add("b.weight", {1000, 7}, 0.02f);
    map.add_unit("empty");
    return map;
}
} // namespace

TEST_CASE("tensors and units cover the flat buffer in order, without gaps") {
    const layout map = three_units();
    CHECK(map.size() == 15 + 5 + 7000);
    std::size_t at = 0;
    for (const tensor_info& t : map.tensors) {
        CHECK(t.begin == at);
        at += t.size;
    }
    CHECK(at == map.size());
    CHECK(map.units[0].end == map.units[1].begin);
    CHECK(map.units[2].size() == 0);
    CHECK(map.tensors[0].decays);
    CHECK(!map.tensors[1].decays);
}

TEST_CASE("a view is the tensor's place inside its unit") {
    const layout map = three_units();
    std::vector<float> flat(map.size());
    std::iota(flat.begin(), flat.end(), 0.0f);
    const device_span<float> unit(flat.data() + map.units[1].begin, map.units[1].size());
    CHECK(view(map, unit, 2).data() == flat.data() + 20);
    CHECK(view(map, unit, 2).size() == 7000);
    CHECK_THROWS_AS(view(map, unit.first(10), 2), error); // a span that is not the whole unit
}

TEST_CASE("an element knows its tensor; none past the end") {
    const layout map = three_units();
    CHECK(map.tensor_of(0).name == "a.weight");
    CHECK(map.tensor_of(15).name == "a.bias");
    CHECK(map.tensor_of(7019).name == "b.weight");
    CHECK_THROWS_WITH_AS(map.tensor_of(7020), doctest::Contains("element 7020 of 7020"), error);
}

TEST_CASE("a tensor without a unit is refused") {
    layout map;
    CHECK_THROWS_WITH_AS(map.add("w", {2}, 0), doctest::Contains("add_unit first"), error);
}

TEST_CASE("initial values: any part alone, the same numbers; other seeds, others") {
    const layout map = three_units();
    std::vector<float> whole(map.size()), again(map.size()), other(map.size());
    initial_values(map, 11, 0, whole);
    for (std::size_t at = 0; at < again.size();) { // in pieces that cut tensors and counters
        const std::size_t size = std::min<std::size_t>(again.size() - at, at % 7 + 1);
        initial_values(map, 11, at, std::span(again).subspan(at, size));
        at += size;
    }
    CHECK(whole == again);
    initial_values(map, 12, 0, other);
    CHECK(whole[0] != other[0]);
    CHECK(whole[15] == 1);
    // 7000 numbers of deviation 0.02: the mean is within 4 / sqrt(7000), the variance within
    // 4 sqrt(2 / 7000) of theirs, but for 1 in 10,000 seeds.
    double sum = 0, squares = 0;
    for (std::size_t i = 20; i < whole.size(); ++i) {
        sum += whole[i] / 0.02;
        squares += std::pow(whole[i] / 0.02, 2);
    }
    CHECK(std::fabs(sum / 7000) < 4 / std::sqrt(7000));
    CHECK(std::fabs(squares / 7000 - 1) < 4 * std::sqrt(2.0 / 7000));
}

TEST_CASE("sabotage: values that depend on where a part begins would be seen") {
    const layout map = three_units();
    std::vector<float> whole(map.size()), shifted(map.size() - 1);
    initial_values(map, 11, 0, whole);
    initial_values(map, 11, 0, shifted); // the part from 1 on, as if it were the part from 0 on
    CHECK(!std::equal(shifted.begin() + 100, shifted.end(), whole.begin() + 101));
}
