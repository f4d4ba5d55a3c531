// SPDX-License-Identifier: MIT
#include "mpt/base/memory.hpp" // memory, buffer

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace mpt;

static_assert(!std::is_copy_constructible_v<buffer<float>> &&
              !std::is_copy_assignable_v<buffer<float>>);
static_assert(std::is_nothrow_move_constructible_v<buffer<float>>);

TEST_CASE("a buffer is in the book while it lives: exactly its elements, rounding not counted") {
    memory mem;
    {
        const buffer<float> w(mem, kind::weights, 1001, "w");
        CHECK(mem.books.now(kind::weights) == 4004);
        CHECK(mem.device.held() == 4032); // the arena rounds, the book does not
        const buffer<double> s(mem, kind::sums, 3, "s", place::host);
        CHECK(mem.books.now(kind::sums, place::host) == 24);
        CHECK(mem.books.total() == 4004);
        CHECK(mem.host.held() == 64);
        CHECK(w.size() == 1001);
        CHECK(w.bytes() == 4004);
    }
    CHECK(mem.books.total() == 0);
    CHECK(mem.books.total(place::host) == 0);
    CHECK(mem.books.peak_total() == 4004);
    CHECK(mem.device.held() == 0);
    CHECK(mem.host.held() == 0);
}

TEST_CASE("moving a buffer moves its entry; assigning frees what was there before") {
    memory mem;
    buffer<float> a(mem, kind::grads, 10, "a");
    const float* bytes = a.span().data();
    buffer<float> b(std::move(a));
    CHECK(b.span().data() == bytes);
    CHECK(a.size() == 0);
    CHECK(a.span().empty());
    CHECK(mem.books.now(kind::grads) == 40);
    b = buffer<float>(mem, kind::temp, 5, "c");
    CHECK(mem.books.now(kind::grads) == 0);
    CHECK(mem.books.now(kind::temp) == 20);
    b = {};
    CHECK(mem.books.total() == 0);
    std::vector<buffer<float>> many;
    for (int i = 0; i < 20; ++i) many.emplace_back(mem, kind::temp, 1, "one");
    CHECK(mem.books.now(kind::temp) == 80);
    many.clear();
    CHECK(mem.books.total() == 0);
}

TEST_CASE("elements are poisoned, and again when the buffer has gone") {
    memory mem(1 << 16);
    const float* gone = nullptr;
    {
        buffer<float> x(mem, kind::temp, 100, "x");
        gone = x.span().data();
        for (int i = 0; i < 100; ++i) CHECK(std::isnan(gone[i]));
        std::memset(x.span().data(), 0, 400);
        CHECK(gone[99] == 0); // sabotage: a written element is not NaN
    }
    for (int i = 0; i < 100; ++i) CHECK(std::isnan(gone[i])); // the region is still mapped
}

TEST_CASE("the budget is the device's alone, and a refusal leaves the book as it was") {
    memory mem(1024);
    const buffer<float> w(mem, kind::weights, 128, "weights"); // 512
    CHECK_THROWS_WITH_AS(
        buffer<double>(mem, kind::moments, 65, "adam m"),
        "memory: adam m asks 520 bytes; of the budget of 1024, 512 are held and 512 "
        "free, the largest free block 512; give more or make the model or the batch "
        "smaller",
        error);
    CHECK(mem.books.total() == 512);
    CHECK(mem.books.now(kind::moments) == 0);
    CHECK_NOTHROW(buffer<double>(mem, kind::moments, 64, "adam m"));
    CHECK_NOTHROW(buffer<double>(mem, kind::moments, 6500, "adam m", place::host));
    CHECK_THROWS_AS(
        buffer<double>(mem, kind::moments, std::numeric_limits<std::size_t>::max() / 4, "m"),
        error); // bytes that 64 bits cannot count
    CHECK_THROWS_AS(buffer<float>(mem, kind::temp, 1, "f", place::file), error);
}

TEST_CASE("an empty buffer takes nothing") {
    memory mem(64);
    const buffer<float> full(mem, kind::weights, 16, "full"), none(mem, kind::temp, 0, "none");
    CHECK(none.size() == 0);
    CHECK(none.span().empty());
    CHECK(mem.books.total() == 64);
}

TEST_CASE("host code reaches the elements of host buffers only") {
    memory mem;
    buffer<int> h(mem, kind::data, 4, "tokens", place::host);
    h.host_span()[2] = 5;
    CHECK(h.host_span()[2] == 5);
    CHECK(h.host_span()[0] == -1);
    buffer<int> d(mem, kind::data, 4, "tokens");
    CHECK_THROWS_WITH_AS(
        d.host_span(),
        "buffer: host code asks for the elements of a buffer on the device; copy it "
        "to the host first",
        error);
}

TEST_CASE("several threads allocate from one memory: nothing is lost, the peak is right") {
    memory mem(1 << 20);
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n)
        threads.emplace_back([&mem, n] {
            const buffer<float> kept(mem, kind(n), 100, "kept");
            for (int i = 0; i < 2000; ++i) const buffer<float> x(mem, kind::temp, 16, "x");
        });
    for (std::thread& t : threads) t.join();
    CHECK(mem.books.total() == 0);
    CHECK(mem.device.held() == 0);
    for (int n = 0; n < 4; ++n) CHECK(mem.books.peak(kind(n)) == 400);
    CHECK(mem.books.peak(kind::temp) >= 64);
    CHECK(mem.books.peak(kind::temp) <= 256);
}
