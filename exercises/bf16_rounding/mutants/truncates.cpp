// SPDX-License-Identifier: MIT
// mutant: every mode drops the lower half
// fails: ties go to even
//< round
    if (magnitude > 0x7F800000) return std::uint16_t((bits >> 16) | 0x0040);
    return std::uint16_t(bits >> 16);
