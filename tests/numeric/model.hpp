// SPDX-License-Identifier: MIT
// The formats once more, by definition: values as doubles, rounding by comparing distances. Nothing
// here is shared with mpt/numeric, and everything is exact: a double holds every number of the
// narrow formats, every float, and half of every spacing.
#pragma once
#include "mpt/base/philox.hpp"     // philox: random bit patterns
#include "mpt/numeric/fp8.hpp"    // e4m3, e5m2: other shapes
#include "mpt/numeric/scalar.hpp" // format: how many bits

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace model {

/// Which codes are no numbers: all with the top exponent (IEEE: infinities and NaNs), those of all
/// ones (e4m3: NaN), none (what has fewer bits).
enum class specials { ieee, one_nan, none };

struct shape {
    int exponent_bits, mantissa_bits;
    specials set_aside = specials::ieee;
    bool saturates = false; // what is too large becomes the largest number
    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    double max() const {
        const double step = std::ldexp(1.0, -mantissa_bits); // of the last mantissa bit
        if (set_aside == specials::ieee) return std::ldexp(2 - step, bias());
        return std::ldexp(2 - (set_aside == specials::one_nan ? 2 : 1) * step, bias() + 1);
    }
    double overflow() const {
        if (saturates) return max();
        return set_aside == specials::ieee ? std::numeric_limits<double>::infinity()
                                           : std::numeric_limits<double>::quiet_NaN();
    }
};

template <class T>
shape shape_of() {
    return {mpt::format<T>::exponent_bits, mpt::format<T>::mantissa_bits};
}
template <>
inline shape shape_of<mpt::e4m3>() {
    return {4, 3, specials::one_nan, true};
}
template <>
inline shape shape_of<mpt::e5m2>() {
    return {5, 2, specials::ieee, true};
}

/// The code of a number, in the low bits.
template <class T>
std::uint32_t code(T x) {
    const shape f = shape_of<T>();
    return std::uint32_t(x.bits) >> (8 * sizeof(T) - 1 - f.exponent_bits - f.mantissa_bits);
}

/// What a code stands for.
inline double value(std::uint32_t code, shape f) {
    const int mantissa = int(code & ((1u << f.mantissa_bits) - 1));
    const int exponent = int((code >> f.mantissa_bits) & ((1u << f.exponent_bits) - 1));
    const double sign = (code >> (f.exponent_bits + f.mantissa_bits)) & 1 ? -1 : 1;
    const bool top = exponent == (1 << f.exponent_bits) - 1;
    if (f.set_aside == specials::one_nan && top && mantissa == (1 << f.mantissa_bits) - 1)
        return std::numeric_limits<double>::quiet_NaN();
    if (f.set_aside == specials::ieee && top)
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
    const int significand = (1 << f.mantissa_bits) + mantissa;
    return sign * std::ldexp(significand, exponent - f.bias() - f.mantissa_bits);
}

/// x in whole steps of the format and a rest, and `up` decides by (rest, steps) whether to go on to
/// the next number. What exceeds the largest becomes `beyond`. x is not a NaN.
template <class Up>
double rounded(double x, shape f, double beyond, Up up) {
    if (x == 0) return x;
    if (std::isinf(x)) return std::copysign(f.overflow(), x);
    const double size = std::fabs(x);
    int exponent = std::ilogb(size);
    if (exponent < 1 - f.bias()) exponent = 1 - f.bias();
    const double spacing = std::ldexp(1.0, exponent - f.mantissa_bits);
    const double below = std::floor(size / spacing); // both divisions by a power of two: exact
    const double rest = size / spacing - below;
    const double result = (below + (up(rest, below) ? 1 : 0)) * spacing;
    return std::copysign(result > f.max() ? beyond : result, x);
}

/// The number of the format nearest to x, the even one of two.
inline double rounded(double x, shape f) {
    return rounded(x, f, f.overflow(), [](double rest, double below) {
        return rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) == 1);
    });
}
inline double toward_zero(double x, shape f) {
    return rounded(x, f, f.max(), [](double, double) { return false; });
}
inline double half_away(double x, shape f) {
    return rounded(x, f, f.overflow(), [](double rest, double) { return rest >= 0.5; });
}
/// Up if rest + r / 2^32 >= 1. In integers of 2^-32: what the rest has below one changes nothing.
inline double stochastic(double x, shape f, std::uint32_t r) {
    return rounded(x, f, f.overflow(), [r](double rest, double) {
        return std::uint64_t(std::ldexp(rest, 32)) + r >= (1ull << 32);
    });
}

/// Is `code` right for x? For a NaN: sign, quiet bit, and the top bits of its payload.
inline bool right(float x, std::uint32_t code, shape f) {
    const std::uint32_t bits = mpt::bits_of(x);
    if (f.set_aside == specials::one_nan &&
        (std::isnan(x) || std::isnan(rounded(double(x), f)))) { // the sign, then all ones
        const int below_sign = f.exponent_bits + f.mantissa_bits;
        return code == ((2u << below_sign) - 1 - (std::signbit(x) ? 0 : 1u << below_sign));
    }
    if (std::isnan(x)) {
        const std::uint32_t payload = (bits & 0x7FFFFF) >> (23 - f.mantissa_bits);
        const std::uint32_t exponent = (1u << f.exponent_bits) - 1; // after the sign: all ones
        const std::uint32_t top = (bits >> 31) << f.exponent_bits | exponent;
        return code == (top << f.mantissa_bits | payload | 1u << (f.mantissa_bits - 1));
    }
    const double is = value(code, f), wanted = rounded(double(x), f);
    return is == wanted && std::signbit(is) == std::signbit(wanted);
}

/// How many inputs `convert` (float -> code) turns into a wrong code.
template <class Convert>
std::size_t wrong(const std::vector<float>& inputs, shape f, Convert convert) {
    std::size_t count = 0;
    for (float x : inputs) count += !right(x, convert(x), f);
    return count;
}

/// Every `stride`-th code of the format and the middle to its next neighbour, each with the two
/// floats before and after it; the special numbers; NaNs of all kinds; random bits. Both signs.
inline std::vector<float> inputs(shape f, std::uint32_t stride, std::uint32_t random) {
    std::vector<std::uint32_t> bits;
    const std::uint32_t codes = 1u << (f.exponent_bits + f.mantissa_bits);
    for (std::uint32_t code = 0; code < codes; code += stride) {
        const double here = value(code, f), next = value(code + 1, f);
        if (!std::isfinite(here)) break;
        const double spacing = std::isfinite(next) ? next - here : here - value(code - 1, f);
        for (double x : {here, here + spacing / 2}) // here: exact, the middle: a tie
            for (std::uint32_t k = 0; k < 5; ++k) bits.push_back(mpt::bits_of(float(x)) + k - 2);
    }
    for (std::uint32_t exponent = 0; exponent < 256; ++exponent) // all of fp32, also out of range
        for (std::uint32_t k = 0; k < 23; ++k) {
            bits.push_back(exponent << 23 | 1u << k);
            bits.push_back(exponent << 23 | ((1u << k) - 1));
            bits.push_back(exponent << 23 | (0x7FFFFF ^ ((1u << k) - 1)));
        }
    for (std::uint32_t i = 0; i < random; ++i)
        for (std::uint32_t word : mpt::philox({{i, 0, 0, 0}}, 2026, 7).x) bits.push_back(word);
    std::vector<float> all;
    for (std::uint32_t b : bits) {
        all.push_back(mpt::float_of(b));
        all.push_back(mpt::float_of(b ^ 0x80000000));
    }
    return all;
}

// Conversions that are wrong in ways seen in the wild. What finds no fault in them is no test.

/// Normal numbers are rounded by `shift`; all others rightly.
template <int exponent_bits, int mantissa_bits>
std::uint32_t with_rounding(float x, std::uint32_t (*shift)(std::uint32_t, int)) {
    using to = mpt::bit_layout<exponent_bits, mantissa_bits>;
    const std::uint32_t bits = mpt::bits_of(x), a = bits & mpt::fp32_magnitude;
    if (a > mpt::fp32_infinity || a < mpt::bits_of(std::ldexp(1.0f, 1 - to::bias)))
        return mpt::narrow_code<exponent_bits, mantissa_bits>(bits);
    const std::uint32_t code = shift(a - to::rebias, to::dropped);
    return bits >> 31 << to::sign | (code < to::infinity ? code : to::infinity);
}
inline std::uint32_t truncate(std::uint32_t value, int dropped) { return value >> dropped; }
inline std::uint32_t half_away(std::uint32_t value, int dropped) {
    return (value + (1u << (dropped - 1))) >> dropped;
}
/// Ties to even, but NaN is rounded as if it were a number.
template <int exponent_bits, int mantissa_bits>
std::uint32_t forgets_nan(float x) {
    using to = mpt::bit_layout<exponent_bits, mantissa_bits>;
    const std::uint32_t bits = mpt::bits_of(x), a = bits & mpt::fp32_magnitude;
    if (a <= mpt::fp32_infinity) return mpt::narrow_code<exponent_bits, mantissa_bits>(bits);
    return (bits >> 31 << to::sign | mpt::round_shift(a, to::dropped)) & ((2u << to::sign) - 1);
}
/// Right, except that subnormal results become zero.
template <int exponent_bits, int mantissa_bits>
std::uint32_t flushes(float x) {
    using to = mpt::bit_layout<exponent_bits, mantissa_bits>;
    const std::uint32_t code = mpt::narrow_code<exponent_bits, mantissa_bits>(mpt::bits_of(x));
    const std::uint32_t sign = 1u << to::sign;
    return (code & (sign - 1)) < to::min_normal ? code & sign : code;
}

/// A table of tests/cases/formats: fp32 bits and the code they become.
struct row {
    std::uint32_t in, out;
};
inline std::ifstream open_table(const std::string& file) {
    std::string path = __FILE__;
    path = path.substr(0, path.rfind('/')) + "/../cases/formats/" + file;
    return std::ifstream(path, std::ios::binary);
}
/// Below a line of titles, in hex, separated by commas: the first column and the one asked for.
inline std::vector<row> table(const std::string& file, int column = 1) {
    std::ifstream in = open_table(file);
    std::vector<row> rows;
    row r;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
        std::size_t at = 0;
        for (int i = 0; i < column && at != std::string::npos; ++i) at = line.find(',', at + 1);
        if (at != std::string::npos && std::sscanf(line.c_str(), "%x", &r.in) == 1 &&
            std::sscanf(line.c_str() + at + 1, "%x", &r.out) == 1)
            rows.push_back(r);
    }
    return rows;
}
/// As pairs of 4 bytes, little endian.
inline std::vector<row> binary_table(const std::string& file) {
    std::ifstream in = open_table(file);
    std::vector<row> rows;
    const auto word = [](const unsigned char* b) {
        return std::uint32_t(b[0] | b[1] << 8 | b[2] << 16) | std::uint32_t(b[3]) << 24;
    };
    for (unsigned char b[8]; in.read(reinterpret_cast<char*>(b), 8);)
        rows.push_back({word(b), word(b + 4)});
    return rows;
}
template <class Convert>
std::size_t wrong(const std::vector<row>& rows, Convert convert) {
    std::size_t count = 0;
    for (row r : rows) count += convert(mpt::float_of(r.in)) != r.out;
    return count;
}

} // namespace model
