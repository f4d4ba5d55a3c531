// SPDX-License-Identifier: MIT
#include "mpt/comm/timeout.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

using mpt::timeout_seconds;
using rig::refusal;

namespace {
struct setting { // of MPT_TIMEOUT_S, for a scope
    explicit setting(const char* text) {
        text ? setenv("MPT_TIMEOUT_S", text, 1) : unsetenv("MPT_TIMEOUT_S");
    }
    ~setting() { unsetenv("MPT_TIMEOUT_S"); }
};
} // namespace

TEST_CASE("300 seconds, or what the environment says") {
    CHECK((setting(nullptr), timeout_seconds()) == 300);
    CHECK((setting("5"), timeout_seconds()) == 5);
    CHECK((setting("0.25"), timeout_seconds()) == 0.25);
    CHECK((setting("1e6"), timeout_seconds()) == 1e6);
    CHECK((setting("1e-3"), timeout_seconds()) == 1e-3);
}

TEST_CASE("what is no such number is refused, with what it was") {
    for (const char* text : {"", " ", "0", "-1", "5s", " 5", "5 ", "five", "nan", "inf", "1e7",
                             "1e999", "0x10", "1,5", "--5", "1e-999"}) {
        const setting set(text);
        CHECK(refusal([] { timeout_seconds(); }) ==
              mpt::join("MPT_TIMEOUT_S is '", text,
                        "'; wanted seconds above 0 and up to 1e6, such as 300 or 0.5"));
    }
}
