// SPDX-License-Identifier: MIT
#include "mpt/base/crc32c.hpp" // crc32c

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace mpt;

static std::uint32_t sum(const std::string& s, std::uint32_t before = 0) {
    return crc32c(std::as_bytes(std::span(s)), before);
}
// The definition: a division, bit by bit.
static std::uint32_t divided(const std::string& s) {
    std::uint32_t r = ~0u;
    for (const char c : s)
        for (int bit = 0; bit < 8; ++bit) {
            const bool out = (r ^ std::uint32_t(static_cast<unsigned char>(c)) >> bit) & 1;
            r = r >> 1 ^ (out ? crc32c_polynomial : 0);
        }
    return ~r;
}
static std::string noise(std::size_t n) {
    std::string s;
    std::uint32_t x = 1;
    for (std::size_t i = 0; i < n; ++i) s += char((x = x * 1664525 + 1013904223) >> 24);
    return s;
}

TEST_CASE("known sums: RFC 3720, appendix B.4, and the check of 123456789") {
    std::string rising, falling;
    for (int i = 0; i < 32; ++i) rising += char(i), falling += char(31 - i);
    CHECK(sum(std::string(32, '\0')) == 0x8A9136AA);
    CHECK(sum(std::string(32, '\xff')) == 0x62A8AB43);
    CHECK(sum(rising) == 0x46DD794E);
    CHECK(sum(falling) == 0x113FDB5C);
    CHECK(sum("123456789") == 0xE3069283);
    CHECK(sum("") == 0);
}

TEST_CASE("equal to the division, for every length; in parts as whole") {
    const std::string s = noise(300);
    for (std::size_t n = 0; n <= s.size(); ++n) {
        CHECK(sum(s.substr(0, n)) == divided(s.substr(0, n)));
        CHECK(sum(s.substr(n), sum(s.substr(0, n))) == sum(s));
    }
}

// The sum of a damaged text differs from the right one by the damage's own remainder (the division
// is linear), so all damages of a byte at all places stand for all texts.
TEST_CASE("every change of any one byte is seen, and every burst of 32 bits at sampled places") {
    const std::string s = noise(131);
    const std::uint32_t right = sum(s);
    for (std::size_t i = 0; i < s.size(); ++i)
        for (int change = 1; change < 256; ++change) {
            std::string bad = s;
            bad[i] = char(bad[i] ^ change);
            REQUIRE(sum(bad) != right);
        }
    std::uint32_t x = 7;
    for (int k = 0; k < 100000; ++k) {
        x = x * 1664525 + 1013904223;
        std::string bad = s;
        for (std::size_t j = 0; j < 4; ++j) bad[(x >> 20) % 128 + j] ^= char(x >> 8 * j);
        REQUIRE((sum(bad) != right) == (bad != s));
    }
}

TEST_CASE("sabotage: a sum of the bytes, or P itself as the damage, is not seen") {
    const std::string s = noise(64);
    std::string bad = s;
    std::swap(bad[3], bad[40]); // what adding up the bytes would miss
    CHECK(sum(bad) != sum(s));
    bad = s;
    // x^32 and the 32 lower coefficients: 33 bits in a row, the least that can be missed
    const std::uint64_t p = 1 | std::uint64_t(crc32c_polynomial) << 1;
    for (std::size_t j = 0; j < 5; ++j) bad[10 + j] ^= char(p >> 8 * j);
    CHECK(bad != s);
    CHECK(sum(bad) == sum(s));
}
