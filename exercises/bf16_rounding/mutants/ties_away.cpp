// SPDX-License-Identifier: MIT
// mutant: ties go away from zero
// fails: ties go to even
//< round
    if (magnitude > 0x7F800000) return std::uint16_t((bits >> 16) | 0x0040);
    const bool negative = bits >> 31;
    if (mode == 0) bits += 0x8000;
    if (mode == 2 && !negative) bits += 0xFFFF;
    return std::uint16_t(bits >> 16);
