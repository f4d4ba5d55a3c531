// SPDX-License-Identifier: MIT
#include "mpt/base/error.hpp" // error, join, check

#include <doctest/doctest.h>

#include <ostream>
#include <stdexcept>
#include <string>

using namespace mpt;

namespace {
struct counted { // how often it was written
    int* times;
    friend std::ostream& operator<<(std::ostream& out, const counted& c) {
        ++*c.times;
        return out << "seen";
    }
};
} // namespace

TEST_CASE("a failed check throws its parts, joined") {
    CHECK_NOTHROW(check(true, "nothing"));
    CHECK_THROWS_WITH_AS(check(false, "batch: ", 0, " rows; wanted ", 1.5, " or ", 'x'),
                         "batch: 0 rows; wanted 1.5 or x", error);
    CHECK_THROWS_WITH_AS(check(false), "", error);
    CHECK(join() == "");
    CHECK(join("a", 1, std::string("b")) == "a1b");
}

TEST_CASE("an error can be caught as what every program knows") {
    CHECK_THROWS_AS(check(false, "x"), std::runtime_error);
    CHECK_THROWS_AS(check(false, "x"), std::exception);
}

TEST_CASE("parts are written only when the check fails") {
    int times = 0;
    for (int i = 0; i < 1000; ++i) check(true, counted{&times}, counted{&times});
    CHECK(times == 0);
    CHECK_THROWS_AS(check(false, counted{&times}), error);
    CHECK(times == 1); // sabotage: the counter does count
}
