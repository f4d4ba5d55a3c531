// SPDX-License-Identifier: MIT
// Rounding fp32 to bf16: chapter 2.
//
// A bf16 number is the upper half of a float: 1 sign bit, 8 exponent bits, 7 of 23 mantissa bits.
// Dropping the lower half rounds toward zero. To round otherwise, add something to the 32 bits
// first and let the carry do the rest: it runs from the mantissa into the exponent by itself, up to
// infinity. NaN needs care: dropped or carried bits may make infinity of it, or a number.
// Your mode is `mode`; the function has to know all three.
#include "exercise.hpp"

#include <cstring>

std::uint16_t to_bf16(float x, int mode) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const std::uint32_t magnitude = bits & 0x7FFFFFFF; // infinity is 0x7F800000, NaN above it
    //< round: NaN first, then what each mode adds, about 6 lines
    if (magnitude > 0x7F800000) return std::uint16_t((bits >> 16) | 0x0040);
    const bool negative = bits >> 31;
    if (mode == 0) bits += 0x7FFF + ((bits >> 16) & 1);
    if (mode == 2 && !negative) bits += 0xFFFF;
    return std::uint16_t(bits >> 16);
    //> throw exercise::todo("round");
}
