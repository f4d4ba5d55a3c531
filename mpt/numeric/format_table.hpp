// SPDX-License-Identifier: MIT
/// @file format_table.hpp
/// All number formats side by side: range, precision, cost.                tier 1, needs: std only
///
/// Idea     Exponent bits are range, mantissa bits precision, and both are silicon: a multiplier
///          grows with the square of the significand, an adder and a memory with the bits. In fp16
///          a number takes half the bytes, a multiplication 0.30 of the energy that it takes in
///          fp32, an addition 0.44. Fetching it costs more: 32 bits of DRAM are 640 pJ, as much
///          as 173 multiplications in fp32.
/// Breaks   reading a cost of 0 as free: it says that the source has no figure for that format
/// Source   Horowitz 2014, Computing's energy problem (and what we can do about it), ISSCC: 45 nm,
///          0.9 V; with the areas in Kim et al. 2023, arXiv:2302.14017
/// See      fp16.hpp, bf16.hpp, tf32.hpp, fp8.hpp, fp4_fp6.hpp, int8.hpp, e8m0.hpp,
///          tests/numeric/format_table_test.cpp
#pragma once

namespace mpt {

/// One addition and one multiplication, in parts of what they cost in fp32. 0: no figure published.
struct operation_cost {
    double add, multiply;
};
struct silicon {
    operation_cost energy, area;
};

struct format_row {
    const char* name;
    int bits; // of a code
    int exponent_bits, mantissa_bits;
    int bias;             // value = 1.m * 2^(exponent code - bias)
    double max;           // largest finite number
    double min_normal;    // smallest with a leading 1
    double min_subnormal; // smallest of all
    double epsilon;       // from 1 to the next number
    double bytes;         // an element in memory, packed; without its share of a scale
    bool has_infinity, has_nan;
    silicon cost;
};

// Energy in pJ, area in square micrometres.
inline constexpr silicon fp32_silicon = {{1, 1}, {1, 1}}; // 0.9 and 3.7 pJ; 4184 and 7700
inline constexpr silicon fp16_silicon = {{0.4 / 0.9, 1.1 / 3.7}, {1360.0 / 4184, 1640.0 / 7700}};
inline constexpr silicon int8_silicon = {{0.03 / 0.9, 0.2 / 3.7}, {36.0 / 4184, 282.0 / 7700}};
inline constexpr silicon unpublished = {{0, 0}, {0, 0}};

/// Widest first. int8 in units of its step; e8m0 is a scale: no sign, no zero, only powers of two.
// clang-format off
inline constexpr format_row format_table[] = {
    // bits: all, e, m, bias       max  min normal  subnormal  epsilon  bytes   inf    NaN
    {"fp32", 32, 8, 23, 127, 0x1.FFFFFEp127, 0x1p-126, 0x1p-149, 0x1p-23, 4, true, true,
     fp32_silicon},
    {"tf32", 19, 8, 10, 127, 0x1.FFCp127, 0x1p-126, 0x1p-136, 0x1p-10, 4, true, true, unpublished},
    {"fp16", 16, 5, 10, 15, 65504, 0x1p-14, 0x1p-24, 0x1p-10, 2, true, true, fp16_silicon},
    {"bf16", 16, 8, 7, 127, 0x1.FEp127, 0x1p-126, 0x1p-133, 0x1p-7, 2, true, true, unpublished},
    {"e5m2", 8, 5, 2, 15, 57344, 0x1p-14, 0x1p-16, 0x1p-2, 1, true, true, unpublished},
    {"e4m3", 8, 4, 3, 7, 448, 0x1p-6, 0x1p-9, 0x1p-3, 1, false, true, unpublished},
    {"int8", 8, 0, 7, 0, 127, 1, 1, 1, 1, false, false, int8_silicon},
    {"e3m2", 6, 3, 2, 3, 28, 0x1p-2, 0x1p-4, 0x1p-2, 0.75, false, false, unpublished},
    {"e2m3", 6, 2, 3, 1, 7.5, 1, 0x1p-3, 0x1p-3, 0.75, false, false, unpublished},
    {"e2m1", 4, 2, 1, 1, 6, 1, 0.5, 0.5, 0.5, false, false, unpublished},
    {"e8m0", 8, 8, 0, 127, 0x1p127, 0x1p-127, 0x1p-127, 1, 1, false, true, unpublished},
};
// clang-format on

} // namespace mpt
