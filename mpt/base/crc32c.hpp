// SPDX-License-Identifier: MIT
/// @file crc32c.hpp
/// A check sum that sees every changed byte.                               tier 0, needs: std only
///
/// Idea     The bits are the coefficients of one long polynomial; the sum is its remainder after
///          division by P. A damage e goes unseen only if P divides e. P has degree 32 and ends in
///          1, so it divides no e whose changed bits lie within 32 in a row: every changed byte is
///          seen, whatever else the file holds. Wider damage is missed once in 2^32.
/// Formula  P = x^32 + x^28 + x^27 + x^26 + x^25 + x^23 + x^22 + x^20 + x^19 + x^18 + x^14 + x^13
///              + x^11 + x^10 + x^9 + x^8 + x^6 + 1, bits reversed: 0x82F63B78
/// Costs    compute: a table look-up a byte, or an instruction for 8 where the CPU has it.
///          memory: 8 tables of 1 KiB
/// Breaks   anyone can make a file of any sum: it tells damage, not fraud
/// Source   Castagnoli, Braeuer, Herrmann 1993, Optimization of Cyclic Redundancy-Check Codes with
///          24 and 32 Parity Bits; RFC 3720, section 12.1 and appendix B.4 (sums of known bytes)
/// See      train/checkpoint.hpp (its user), tests/base/crc32c_test.cpp
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__SSE4_2__) && defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mpt {

static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

inline constexpr std::uint32_t crc32c_polynomial = 0x82F63B78; // x^32 left out, x^31 lowest

/// [0][b]: the remainder of byte b with 4 bytes of zeros behind it; [k][b]: with k more.
inline constexpr auto crc32c_tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> t{};
    for (std::uint32_t b = 0; b < 256; ++b) {
        std::uint32_t r = b;
        for (int bit = 0; bit < 8; ++bit) r = r >> 1 ^ (r & 1 ? crc32c_polynomial : 0);
        t[0][b] = r;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
    return t;
}();

/// The sum of `bytes`. In parts: crc32c(second, crc32c(first)) is that of both behind one another.
inline std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) {
    const auto& t = crc32c_tables;
    std::uint32_t r = ~before; // begins with ones, so that leading zeros count
    std::size_t i = 0;
#if defined(__SSE4_2__) && defined(__x86_64__)
    for (; i + 8 <= bytes.size(); i += 8) {
        std::uint64_t w;
        std::memcpy(&w, bytes.data() + i, 8);
        r = std::uint32_t(_mm_crc32_u64(r, w));
    }
#endif
    for (; i + 8 <= bytes.size(); i += 8) { // eight look-ups that do not wait for one another
        std::uint64_t w;
        std::memcpy(&w, bytes.data() + i, 8);
        w ^= r;
        r = 0;
        for (std::size_t k = 0; k < 8; ++k) r ^= t[7 - k][w >> 8 * k & 255];
    }
    for (; i < bytes.size(); ++i)
        r = r >> 8 ^ t[0][(r ^ std::to_integer<std::uint32_t>(bytes[i])) & 255];
    return ~r;
}

} // namespace mpt
