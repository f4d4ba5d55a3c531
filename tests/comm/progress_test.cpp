// SPDX-License-Identifier: MIT
#include "mpt/comm/progress.hpp"

#include <doctest/doctest.h>

#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using mpt::handle;
using mpt::progress;

namespace {
void nothing() {}
} // namespace

TEST_CASE("what is started is done in its order, on another thread; what waits comes after it") {
    progress p;
    CHECK(!p.pending());
    std::promise<void> open;
    std::vector<int> order;
    std::thread::id where;
    handle a = p.start(
        [&] {
            open.get_future().wait();
            order.push_back(1);
            where = std::this_thread::get_id();
        },
        nothing);
    handle b = p.start([&] { order.push_back(2); }, nothing);
    CHECK(p.pending());
    CHECK(order.empty()); // start() does not wait
    open.set_value();
    std::thread::id here;
    p.run([&] {
        order.push_back(3);
        here = std::this_thread::get_id();
    });
    CHECK(order == std::vector<int>{1, 2, 3});
    CHECK(here == std::this_thread::get_id());
    CHECK(where != here);
    b.wait();
    a.wait();
    CHECK(!p.pending());
}

TEST_CASE("wait() throws what the work has thrown, and what follows is done") {
    progress p;
    handle a = p.start([] { throw std::runtime_error("lost"); }, nothing);
    int done = 0;
    handle b = p.start([&] { done = 1; }, nothing);
    b.wait();
    CHECK(done == 1);
    CHECK_THROWS_WITH(a.wait(), "lost");
    CHECK_THROWS_WITH(p.run([] { throw std::runtime_error("here"); }), "here");
}

TEST_CASE("a handle that is dropped ends its work, and returns after that") {
    progress p;
    std::promise<void> abandoned;
    bool ended = false;
    {
        handle a = p.start(
            [&] {
                abandoned.get_future().wait();
                ended = true;
            },
            [&] { abandoned.set_value(); });
    }
    CHECK(ended); // under ThreadSanitizer: no race
}

TEST_CASE("all that is queued is done before the end") {
    int done = 0;
    std::vector<handle> handles;
    {
        progress p;
        for (int i = 0; i < 100; ++i) handles.push_back(p.start([&] { ++done; }, nothing));
    }
    CHECK(done == 100);
    for (handle& h : handles) h.wait();
}

TEST_CASE("pending() is over when the last handle has been waited for") {
    progress p;
    for (int i = 0; i < 1000; ++i) {
        p.start(nothing, nothing).wait();
        REQUIRE(!p.pending());
    }
}
