// SPDX-License-Identifier: MIT
#include "mpt/comm/traffic.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace mpt;

TEST_CASE("what was entered can be asked by verb, by type, and in all") {
    traffic t;
    t.call(verb::all_reduce, element::fp16);
    t.message(verb::all_reduce, element::fp16, 100);
    t.message(verb::all_reduce, element::fp32, 10, 2);
    t.call(verb::all_gather, element::fp16);
    t.message(verb::all_gather, element::fp16, 7);
    CHECK(t.of(verb::all_reduce, element::fp16) == sent{1, 100, 200, 1});
    CHECK(t.of(verb::all_reduce) == sent{1, 110, 240, 3});
    CHECK(t.of(element::fp16) == sent{2, 107, 214, 2});
    CHECK(t.of(verb::broadcast) == sent{});
    CHECK(t.total() == sent{2, 117, 254, 4});
    CHECK(!(t.total() == sent{2, 117, 255, 4})); // sabotage: one byte more
    t.clear();
    CHECK(t.total() == sent{});
}

TEST_CASE("every verb and every type has a name of its own, and its bytes") {
    std::set<std::string> names;
    for (int v = 0; v < verbs; ++v) names.insert(to_string(verb(v)));
    for (int e = 0; e < element_kinds; ++e) names.insert(to_string(element(e)));
    CHECK(names.size() == std::size_t(verbs + element_kinds));
    CHECK(bytes_of(element_code<float>::value) == sizeof(float));
    CHECK(bytes_of(element_code<double>::value) == sizeof(double));
    CHECK(bytes_of(element_code<fp16>::value) == sizeof(fp16));
    CHECK(bytes_of(element_code<bf16>::value) == sizeof(bf16));
    CHECK(bytes_of(element_code<std::int32_t>::value) == 4);
    CHECK(bytes_of(element_code<std::uint8_t>::value) == 1);
}

TEST_CASE("several threads write one book") {
    traffic t;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int k = 0; k < 1000; ++k) t.message(verb::send, element::fp32, 3);
        });
    for (std::thread& x : threads) x.join();
    CHECK(t.of(verb::send) == sent{0, 12000, 48000, 4000});
}
