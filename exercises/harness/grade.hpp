// SPDX-License-Identifier: MIT
// grade.hpp -- what a grader says: parts with points, numbers to try, and what is wrong.
//
// A part is a function. It returns, or throws `wrong` with what was found and what was expected;
// each runs in a process of its own, so that one that hangs or crashes costs its own points only.
//
//     PART("skips the step on infinity", 3) {
//         equals("scale after an overflow", answer, S / 2, "an overflow halves the scale");
//     }
#pragma once
#include "todo.hpp"

#include "mpt/base/error.hpp"     // join
#include "mpt/base/philox.hpp"    // philox: numbers by address
#include "mpt/numeric/scalar.hpp" // format

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iomanip>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace grade {

/// The first thing that is wrong, in words for who wrote it.
struct wrong {
    std::string what_is; // "scale after an overflow"
    std::string where;   // "element 17 of 33"; empty
    std::string found, expected;
    std::string tolerance; // "2 ulp of bf16"; empty: exactly
    std::string why;       // one sentence
};

// ---- numbers to try ----------------------------------------------------------------------------

/// Numbers from the seed that is printed: the same seed, the same numbers.
class numbers {
public:
    explicit numbers(std::uint64_t seed) : seed_(seed) {}

    std::uint32_t bits() {
        const std::uint64_t n = next_++;
        return mpt::philox({{std::uint32_t(n), std::uint32_t(n >> 32), 0, 0xE8E2C15E}},
                           std::uint32_t(seed_), std::uint32_t(seed_ >> 32))
            .x[0];
    }
    /// In [low, high].
    int between(int low, int high) {
        return low + int(bits() % (std::uint32_t(high) - std::uint32_t(low) + 1));
    }
    /// Not uniform: of both signs, over six powers of ten, times `size`.
    float number(float size = 1) {
        static constexpr float spread[6] = {1, 1e-1f, 1e-2f, 1e-3f, 1e-4f, 1e-5f};
        const float u = 2 * mpt::uniform01(bits()) - 1;
        return size * spread[bits() % 6] * u;
    }
    std::vector<float> list(std::size_t n, float size = 1) {
        std::vector<float> x(n);
        for (float& v : x) v = number(size);
        return x;
    }
    std::uint64_t seed() const { return seed_; }

private:
    std::uint64_t seed_, next_ = 0;
};

/// Of this part; the seed differs from part to part and from run to run.
numbers& any();

// ---- what is wrong -----------------------------------------------------------------------------

template <class T>
std::string text(const T& x) {
    std::ostringstream s;
    if constexpr (std::is_floating_point_v<T>)
        s << std::setprecision(std::numeric_limits<T>::max_digits10) << x;
    else if constexpr (std::is_same_v<T, mpt::fp16> || std::is_same_v<T, mpt::bf16>)
        s << std::setprecision(6) << float(x);
    else if constexpr (std::is_same_v<T, bool>)
        s << (x ? "true" : "false");
    else
        s << x;
    return s.str();
}

/// Exactly equal; NaN equals nothing, and -0 is not 0 where `bits` are asked for.
template <class A, class B>
void equals(const std::string& what, const A& found, const B& expected, const std::string& why) {
    if (!(found == expected)) throw wrong{what, "", text(found), text(expected), "", why};
}

/// Steps of T (units in the last place) between two numbers of it; huge for NaN.
inline double ulps(double found, double expected, int mantissa_bits, double smallest) {
    if (std::isnan(found) || std::isnan(expected)) return HUGE_VAL;
    if (found == expected) return 0;
    if (std::isinf(found) || std::isinf(expected)) return HUGE_VAL;
    const double size = std::abs(expected);
    const double step = size < smallest ? std::ldexp(smallest, -mantissa_bits)
                                        : std::ldexp(1.0, std::ilogb(size) - mantissa_bits);
    return std::abs(found - expected) / step;
}

/// Within `most` ulps of T.
template <class T>
void near(const std::string& what, double found, double expected, double most,
          const std::string& why, const std::string& where = "") {
    const double off =
        ulps(found, expected, mpt::format<T>::mantissa_bits, double(mpt::format<T>::min_normal));
    if (off <= most) return;
    throw wrong{what,
                where,
                text(found),
                text(expected),
                mpt::join(most, " ulp of ", mpt::name<T>(), ", it is ",
                          std::isinf(off) ? "not a number near it" : mpt::join(off, " away")),
                why};
}

/// Within `most`, which `how` explains: "10 roundings of the sum of magnitudes".
inline void within(const std::string& what, double found, double expected, double most,
                   const std::string& how, const std::string& why, const std::string& where = "") {
    if (std::abs(found - expected) <= most) return; // false for NaN
    throw wrong{what,
                where,
                text(found),
                text(expected),
                mpt::join(most, " = ", how, ", it is ", std::abs(found - expected), " away"),
                why};
}

/// Element by element.
template <class T>
void near(const std::string& what, std::span<const T> found, std::span<const double> expected,
          double most, const std::string& why) {
    equals(what + ": how many", found.size(), expected.size(), why);
    for (std::size_t i = 0; i < found.size(); ++i)
        near<T>(what, double(found[i]), expected[i], most, why,
                mpt::join("element ", i, " of ", found.size()));
}

/// The same bits, element by element.
template <class T>
void same(const std::string& what, std::span<const T> found, std::span<const T> expected,
          const std::string& why) {
    equals(what + ": how many", found.size(), expected.size(), why);
    for (std::size_t i = 0; i < found.size(); ++i)
        if (std::memcmp(&found[i], &expected[i], sizeof(T)) != 0)
            throw wrong{what,
                        mpt::join("element ", i, " of ", found.size()),
                        text(found[i]),
                        text(expected[i]),
                        "",
                        why};
}

/// `f` has to throw, and its message to say `part`.
template <class F>
void refuses(const std::string& what, F f, const std::string& part, const std::string& why) {
    try {
        f();
    } catch (const exercise::todo&) {
        throw;
    } catch (const std::exception& e) {
        if (std::string(e.what()).find(part) != std::string::npos) return;
        throw wrong{what, "", e.what(), "a message with \"" + part + "\"", "", why};
    }
    throw wrong{what, "", "no error", "an error with \"" + part + "\"", "", why};
}

// ---- parts -------------------------------------------------------------------------------------

struct part {
    const char* name;
    int points;
    void (*run)();
};
std::vector<part>& parts();

struct registered {
    registered(const char* name, int points, void (*run)()) {
        parts().push_back({name, points, run});
    }
};

} // namespace grade

#define GRADE_JOIN2(a, b) a##b
#define GRADE_JOIN(a, b) GRADE_JOIN2(a, b)
/// A part of the grader: PART("name", points) { ... }
#define PART(name, points)                                                                         \
    static void GRADE_JOIN(part_, __LINE__)();                                                     \
    static const grade::registered GRADE_JOIN(registered_, __LINE__)(name, points,                 \
                                                                     GRADE_JOIN(part_, __LINE__)); \
    static void GRADE_JOIN(part_, __LINE__)()
