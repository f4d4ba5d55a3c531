// SPDX-License-Identifier: MIT
#include "mpt/numeric/packed.hpp" // pack, unpack, packed_bytes, code_bits

#include "mpt/numeric/fp4_fp6.hpp" // e2m1, e2m3

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace mpt;

static_assert(code_bits<e2m1> == 4 && code_bits<e2m3> == 6 && code_bits<e3m2> == 6);
static_assert(packed_bytes<e2m1>(0) == 0 && packed_bytes<e2m1>(1) == 1);
static_assert(packed_bytes<e2m1>(33) == 17 && packed_bytes<e2m3>(4) == 3);
static_assert(packed_bytes<e2m3>(5) == 4 && packed_bytes<e2m3>(32) == 24);

template <class T>
static std::vector<T> codes(std::size_t n) {
    std::vector<T> all(n);
    for (std::size_t i = 0; i < n; ++i)
        all[i].bits = std::uint8_t((i * 37 + 11 * (i / 5) + 5) & (0xFFu >> (8 - code_bits<T>)));
    return all;
}

TEST_CASE("two e2m1 in a byte, the first in the low half") {
    const std::array<e2m1, 3> three = {e2m1(0.5f), e2m1(-6.0f), e2m1(2.0f)};
    std::array<std::uint8_t, 2> bytes = {0xEE, 0xEE};
    pack(three.data(), bytes.data(), 3);
    CHECK(bytes[0] == 0xF1);
    CHECK(bytes[1] == 0x04);
    CHECK(bytes[0] != 0x1F); // sabotage: the other order
}

TEST_CASE("four e2m3 in three bytes") {
    std::array<e2m3, 4> four{};
    four[0].bits = 0x3F, four[1].bits = 0x01, four[2].bits = 0x20, four[3].bits = 0x15;
    std::array<std::uint8_t, 3> bytes{};
    pack(four.data(), bytes.data(), 4);
    CHECK(bytes[0] == 0x7F); // 01'111111
    CHECK(bytes[1] == 0x00); // 0000'0000
    CHECK(bytes[2] == 0x56); // 010101'10
}

// Bit j of code i is bit i w + j of the row.
template <class T>
static std::size_t wrong_bits(const std::vector<T>& all, const std::vector<std::uint8_t>& bytes) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t j = 0; j < std::size_t(code_bits<T>); ++j) {
            const std::size_t at = i * std::size_t(code_bits<T>) + j;
            count += (all[i].bits >> j & 1) != (bytes[at / 8] >> at % 8 & 1);
        }
    return count;
}

template <class T>
static void check_packing() {
    for (const std::size_t n : {0, 1, 2, 3, 4, 5, 7, 16, 31, 32, 97}) {
        CAPTURE(n);
        const std::vector<T> all = codes<T>(n);
        std::vector<std::uint8_t> bytes(packed_bytes<T>(n) + 1, 0xAB);
        pack(all.data(), bytes.data(), n);
        CHECK(wrong_bits(all, bytes) == 0);
        CHECK(bytes.back() == 0xAB); // nothing behind its end
        std::vector<T> back(n);
        unpack(bytes.data(), back.data(), n);
        std::size_t differing = 0;
        for (std::size_t i = 0; i < n; ++i) differing += back[i].bits != all[i].bits;
        CHECK(differing == 0);
        if (n == 97) { // sabotage: one bit
            bytes[n / 3] ^= 0x10;
            CHECK(wrong_bits(all, bytes) == 1);
        }
    }
}
TEST_CASE("e2m1 there and back") { check_packing<e2m1>(); }
TEST_CASE("e2m3 there and back") { check_packing<e2m3>(); }
TEST_CASE("e3m2 there and back") { check_packing<e3m2>(); }
