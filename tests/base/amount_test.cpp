// SPDX-License-Identifier: MIT
#include "mpt/base/amount.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using mpt::amount;

TEST_CASE("amounts are numbers up to 2^64 - 1") {
    CHECK((amount(3) * 5 + 2).n == 17);
    CHECK((amount(0) * SIZE_MAX).n == 0);
    CHECK((amount(SIZE_MAX) * 1 + 0).n == SIZE_MAX);
    CHECK((amount(0xFFFFFFFFu) * 0x100000001u).n == SIZE_MAX); // the largest product there is
    CHECK(mpt::div_up(7, 3).n == 3);
    CHECK(mpt::div_up(6, 3).n == 2);
    CHECK(mpt::div_up(0, 3).n == 0);
    CHECK(mpt::div_up(SIZE_MAX, 2).n == std::size_t(1) << 63); // a + b - 1 would have wrapped
}

TEST_CASE("past that they throw, where numbers wrap") {
    CHECK_THROWS_WITH_AS(amount(SIZE_MAX) + 1,
                         "size 18446744073709551615 + 1: past 64 bits; give smaller sizes",
                         mpt::error);
    CHECK_THROWS_AS(amount(std::size_t(1) << 33) * (std::size_t(1) << 31), mpt::error);
    CHECK((std::size_t(1) << 33) * (std::size_t(1) << 31) == 0); // the twin: believed, and wrong
    CHECK_THROWS_WITH_AS(amount(-1), "size -1: below 0", mpt::error);
    CHECK_THROWS_WITH_AS(mpt::div_up(5, 0), "size 5 in 0 parts", mpt::error);
}
