// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include "mpt/numeric/bf16.hpp"

using namespace grade;

namespace {

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::string hex(std::uint32_t code, int digits) {
    std::ostringstream s;
    s << "0x" << std::hex << std::setw(digits) << std::setfill('0') << code;
    return s.str();
}

// Independent of how it is done with bits: the neighbours of x, and which one the mode wants.
std::uint16_t expected(float x, int mode) {
    const std::uint16_t down = std::uint16_t(std::bit_cast<std::uint32_t>(x) >> 16); // toward zero
    const double low = from_bits(std::uint32_t(down) << 16);
    if (std::isinf(x) || low == double(x)) return down;
    const std::uint16_t up = std::uint16_t(down + 1); // away from zero, up to infinity
    double high = from_bits(std::uint32_t(up) << 16);
    if (std::isinf(high)) high = std::copysign(0x1p128, x);
    if (mode == 1) return down;
    if (mode == 2) return x > 0 ? up : down;
    const double a = std::abs(double(x) - low), b = std::abs(high - double(x));
    return a < b ? down : b < a ? up : down % 2 == 0 ? down : up;
}

void check(float x, int mode, const char* why) {
    const std::uint16_t found = to_bf16(x, mode), want = expected(x, mode);
    if (found == want) return; // no words for 300,000 numbers
    equals(
        mpt::join("mode ", mode, ", bf16 of ", hex(std::bit_cast<std::uint32_t>(x), 8), " = ", x),
        hex(found, 4), hex(want, 4), why);
}

void numbers_of(int mode) {
    for (int k = 0; k < 100000; ++k) {
        const std::uint32_t bits = any().bits();
        if ((bits & 0x7F800000) == 0x7F800000) continue; // infinity and NaN come below
        check(from_bits(bits), mode,
              mode == 0   ? "the nearer neighbour; of two as near, the even one"
              : mode == 1 ? "the neighbour nearer to zero"
                          : "the neighbour above");
    }
}

} // namespace

PART("your mode, on numbers of all sizes", 4) { numbers_of(int(exercise::parameter("mode"))); }
PART("the two other modes", 2) {
    for (int mode = 0; mode < 3; ++mode)
        if (mode != exercise::parameter("mode")) numbers_of(mode);
}
PART("ties go to even", 1) {
    for (const std::uint32_t upper :
         {0x3F80u, 0x3F81u, 0xBF80u, 0xBF81u, 0x0000u, 0x0001u, 0x7F7Fu})
        for (const std::uint32_t lower : {0x7FFFu, 0x8000u, 0x8001u})
            check(from_bits(upper << 16 | lower), 0, "0x8000 is half of the last place: to even");
}
PART("NaN stays NaN, infinity infinity", 3) {
    for (int mode = 0; mode < 3; ++mode)
        for (const std::uint32_t bits :
             {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0x7FFF8C22u, 0x7FC00000u, 0xFFFFFFFFu}) {
            const std::uint16_t code = to_bf16(from_bits(bits), mode);
            equals(mpt::join("mode ", mode, ", is bf16 of the NaN ", hex(bits, 8), " a NaN"),
                   (code & 0x7FFF) > 0x7F80, true, "its lower bits may be all that makes it NaN");
            equals(mpt::join("mode ", mode, ", its sign"), code >> 15, int(bits >> 31), "is kept");
        }
    for (int mode = 0; mode < 3; ++mode) {
        check(HUGE_VALF, mode, "infinity is exact");
        check(-HUGE_VALF, mode, "infinity is exact");
    }
}
