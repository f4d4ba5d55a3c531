// SPDX-License-Identifier: MIT
/// @file packed.hpp
/// Codes of fewer than 8 bits, side by side in memory.                     tier 1, needs: std only
///
/// Idea     The bytes are one row of bits, the lowest bit of each byte first; code i takes bits
///          i w to (i + 1) w - 1 of it. So of two fp4 codes the first lies in the low half of a
///          byte, and four fp6 codes fill three bytes:
///              byte 0  b1 b0 a5 a4 a3 a2 a1 a0     codes a, b, c, d, each from bit 0 up
///              byte 1  c3 c2 c1 c0 b5 b4 b3 b2
///              byte 2  d5 d4 d3 d2 d1 d0 c5 c4
/// Costs    n w / 8 bytes, rounded up
/// Breaks   the other order of halves: every two neighbours change places, and nothing crashes.
///          CUDA's __nv_fp4x2_e2m1 has this order; of __nv_fp6_e2m3 each has a byte.
/// See      fp4_fp6.hpp, tests/numeric/packed_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpt {

/// Bits of one number: 4 for e2m1, 6 for e2m3 and e3m2, 8 for e4m3 and e5m2.
template <class T>
inline constexpr int code_bits = 1 + T::exponent_bits + T::mantissa_bits;

template <class T>
constexpr std::size_t packed_bytes(std::size_t n) {
    return (n * code_bits<T> + 7) / 8;
}

/// codes[0..n) into packed_bytes<T>(n) bytes; what is left of the last one is 0.
template <class T>
void pack(const T* codes, std::uint8_t* bytes, std::size_t n) {
    static_assert(code_bits<T> <= 8);
    std::uint32_t row = 0; // bits that wait for a whole byte
    int held = 0;          // how many
    for (std::size_t i = 0; i < n; ++i) {
        row |= std::uint32_t(codes[i].bits) << held;
        for (held += code_bits<T>; held >= 8; held -= 8, row >>= 8) *bytes++ = std::uint8_t(row);
    }
    if (held > 0) *bytes = std::uint8_t(row);
}

template <class T>
void unpack(const std::uint8_t* bytes, T* codes, std::size_t n) {
    static_assert(code_bits<T> <= 8);
    constexpr std::uint32_t one = 0xFFu >> (8 - code_bits<T>); // the bits of one code
    std::uint32_t row = 0;
    int held = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (held < code_bits<T>) row |= std::uint32_t(*bytes++) << held, held += 8;
        codes[i].bits = std::uint8_t(row & one);
        row >>= code_bits<T>, held -= code_bits<T>;
    }
}

} // namespace mpt
