// SPDX-License-Identifier: MIT
#include "mpt/comm/handle.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <utility>

using mpt::handle;

namespace {
handle noting(std::string& log, const std::string& name) {
    return handle([&log, name] { log += name + " waited "; },
                  [&log, name] { log += name + " dropped "; });
}
} // namespace

TEST_CASE("a handle is waited for once, or dropped") {
    std::string log;
    {
        handle a = noting(log, "a");
        CHECK(a.pending());
        a.wait();
        CHECK(!a.pending());
        a.wait();
        CHECK(log == "a waited ");
        handle b = noting(log, "b");
    }
    CHECK(log == "a waited b dropped ");
    handle none;
    none.wait();
    CHECK(!none.pending());
}

TEST_CASE("what moves is dropped once, and what is moved over at once") {
    std::string log;
    handle a = noting(log, "a");
    handle b = std::move(a);
    CHECK(!a.pending());
    CHECK(b.pending());
    b = noting(log, "c");
    CHECK(log == "a dropped ");
    handle& self = b;
    b = std::move(self);
    CHECK(b.pending());
    b.wait();
    CHECK(log == "a dropped c waited ");
}

TEST_CASE("wait() throws what ended the collective, and then it is over") {
    std::string log;
    {
        handle a([] { throw std::runtime_error("lost"); }, [&] { log += "dropped"; });
        CHECK_THROWS_WITH(a.wait(), "lost");
        CHECK(!a.pending());
    }
    CHECK(log.empty());
    handle silent([] {}); // with nothing to do when dropped
}
