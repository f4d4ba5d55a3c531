// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include "mpt/numeric/fp8.hpp"

using namespace grade;

namespace {

// All numbers of the format, from its definition.
std::vector<double> numbers_of() {
    std::vector<double> all;
    for (int code = 0; code < 0x7F; ++code) {
        const int e = code >> 3, m = code & 7;
        all.push_back(e == 0 ? std::ldexp(m / 8.0, -6) : std::ldexp(1 + m / 8.0, e - 7));
    }
    return all;
}

void tried(double x, bool saturating) {
    static const std::vector<double> all = numbers_of();
    const double a = std::abs(x), beyond = 480; // what would come after 448
    double want = -1;
    if (a >= 448) {
        const bool over = a > 464; // 464 is halfway, and 448 is even
        want = !over ? 448 : saturating ? 448 : std::nan("");
        (void)beyond;
    } else {
        std::size_t k = 0;
        while (all[k + 1] <= a) ++k;
        const double down = a - all[k], up = all[k + 1] - a;
        want = down < up ? all[k] : up < down ? all[k + 1] : all[k % 2 == 0 ? k : k + 1];
    }
    const double found = rounded(x, saturating);
    const std::string what =
        mpt::join("E4M3 of ", x, saturating ? ", saturating" : ", not saturating");
    if (std::isnan(want))
        equals(what + ": is it NaN", std::isnan(found), true,
               "it is too large, and there is no infinity");
    else
        equals(what, found, std::copysign(want, x),
               "the nearest number; of two as near, the even code");
}

} // namespace

PART("the three numbers", 3) {
    equals("the largest", largest(), 448.0, "1.75 * 2^8: 1.875 * 2^8 would be the code of NaN");
    equals("the smallest normal", smallest_normal(), 0.015625, "2^(1 - 7)");
    equals("the smallest", smallest(), 0.001953125, "an eighth of it: 3 mantissa bits");
}
PART("rounding", 2) {
    for (int k = 0; k < 20000; ++k) {
        const double x = std::ldexp(2.0 * any().bits() / 4294967296.0 - 1, any().between(-12, 8));
        tried(x, k % 2 == 0);
    }
    for (const double x : {0.0009765625, 0.0009766, -0.0029296875, 1.0625, 1.1875, 0.0146484375})
        tried(x, true);
}
PART("what is too large", 1) {
    for (const double x : {448.0, 463.0, 464.0, 465.0, 1000.0, -465.0, HUGE_VAL, -HUGE_VAL}) {
        tried(x, true);
        tried(x, false);
    }
}
