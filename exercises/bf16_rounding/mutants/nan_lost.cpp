// SPDX-License-Identifier: MIT
// mutant: NaN is rounded like a number
// fails: NaN stays NaN, infinity infinity
//< round
    const bool negative = bits >> 31;
    if (mode == 0) bits += 0x7FFF + ((bits >> 16) & 1);
    if (mode == 2 && !negative) bits += 0xFFFF;
    return std::uint16_t(bits >> 16);
