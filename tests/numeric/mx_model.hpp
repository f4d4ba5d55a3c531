// SPDX-License-Identifier: MIT
// The tables of tests/cases/mx, and the block formats once more by definition: lists of values,
// distances in double, scales found by trying them all. Nothing here is shared with mpt/numeric.
#pragma once
#include "mpt/base/philox.hpp"      // philox: random bit patterns
#include "mpt/numeric/rounding.hpp" // bits_of, float_of

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace mx_model {

using mpt::bits_of, mpt::float_of;

/// The lines of a table behind the first, cut at commas that are not in quotes.
inline std::vector<std::vector<std::string>> table(const std::string& file) {
    std::string path = __FILE__;
    path = path.substr(0, path.rfind('/')) + "/../cases/mx/" + file;
    std::ifstream in(path);
    std::vector<std::vector<std::string>> rows;
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
        std::vector<std::string> row(1);
        bool quoted = false;
        for (const char c : line)
            if (c == '"')
                quoted = !quoted;
            else if (c == ',' && !quoted)
                row.emplace_back();
            else
                row.back() += c;
        rows.push_back(row);
    }
    return rows;
}

inline std::uint32_t hex(const std::string& text) {
    return std::uint32_t(std::stoul(text, nullptr, 16));
}
/// "0A1B" as numbers of `digits` digits each.
inline std::vector<std::uint32_t> hexes(const std::string& text, std::size_t digits) {
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i + digits <= text.size(); i += digits)
        all.push_back(hex(text.substr(i, digits)));
    return all;
}
inline std::vector<float> floats(const std::string& text) {
    std::vector<float> all;
    for (const std::uint32_t b : hexes(text, 8)) all.push_back(float_of(b));
    return all;
}
inline bool is_nan(std::uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }
/// The same bits; of a NaN only that it is one.
inline bool same(float x, std::uint32_t bits) {
    return is_nan(bits) ? is_nan(bits_of(x)) : bits_of(x) == bits;
}

/// Decoding: how many rows of decode_NAME.csv does `value` (code -> float) get wrong?
template <class Value>
std::size_t wrong_values(const std::string& name, Value value) {
    std::size_t count = 0;
    for (const auto& r : table("decode_" + name + ".csv"))
        count += !same(value(std::uint8_t(hex(r[0]))), hex(r[1]));
    return count;
}
/// Encoding: rows of FILE, which has pairs of a float and its code.
template <class Code>
std::size_t wrong_codes(const std::string& file, Code code) {
    std::size_t count = 0;
    for (const auto& r : table(file)) count += code(float_of(hex(r[0]))) != hex(r[1]);
    return count;
}
/// runs_NAME.csv says: from this pattern on, this code. Both ends of every run, and some inside.
template <class Code>
std::size_t wrong_runs(const std::string& name, Code code) {
    const auto rows = table("runs_" + name + ".csv");
    std::size_t count = rows.empty();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::uint64_t first = hex(rows[i][0]);
        const std::uint64_t end = i + 1 < rows.size() ? hex(rows[i + 1][0]) : 1ull << 32;
        const std::uint32_t wanted = hex(rows[i][1]);
        for (std::uint64_t b = first; b < end; b += 1 + (end - first) / 97)
            count += code(float_of(std::uint32_t(b))) != wanted;
        count += code(float_of(std::uint32_t(end - 1))) != wanted;
    }
    return count;
}

/// An element: what its codes without sign are worth, from 0 up.
struct element {
    std::vector<double> values;
    int mantissa_bits;
    int sign_bit; // 0: two's complement
    double max() const { return values.back(); }
    int emax() const { return std::ilogb(max()); }
};
inline element floating(int exponent_bits, int mantissa_bits, int codes) {
    element e{{}, mantissa_bits, 1 << (exponent_bits + mantissa_bits)};
    const int bias = (1 << (exponent_bits - 1)) - 1, one = 1 << mantissa_bits;
    for (int c = 0; c < codes; ++c) {
        const int exponent = c / one, fraction = c % one;
        e.values.push_back(exponent == 0
                               ? std::ldexp(fraction, 1 - bias - mantissa_bits)
                               : std::ldexp(one + fraction, exponent - bias - mantissa_bits));
    }
    return e;
}
inline element by_name(const std::string& name) {
    if (name == "e4m3") return floating(4, 3, 0x7F); // without its NaN
    if (name == "e5m2") return floating(5, 2, 0x7C); // without infinity and NaNs
    if (name == "e3m2") return floating(3, 2, 32);
    if (name == "e2m3") return floating(2, 3, 32);
    if (name == "e2m1") return floating(2, 1, 8);
    element e{{}, 6, 0};
    for (int c = 0; c < 128; ++c) e.values.push_back(c / 64.0);
    return e;
}

/// The code whose value times unit is nearest to |x|; of two equally near ones the even.
inline int nearest(double x, double unit, const std::vector<double>& values) {
    const double a = std::fmin(std::fabs(x), values.back() * unit);
    int best = 0;
    for (int c = 1; c < int(values.size()); ++c) { // exact for all values that are near
        const double there = std::fabs(a - values[std::size_t(c)] * unit);
        const double here = std::fabs(a - values[std::size_t(best)] * unit);
        if (there < here || (there == here && c % 2 == 0)) best = c;
    }
    return best;
}

/// The exponent of the scale, by trying: the rule's own words, in powers of two.
inline int exponent(double amax, const element& e, const std::string& rule) {
    const auto two = [](int n) { return std::ldexp(1.0, n); };
    int n = -400;
    if (rule == "floor")
        while (two(n + 1 + e.emax()) <= amax) ++n; // the last that does not pass amax
    else if (rule == "ceil")
        while (two(n + e.emax()) < amax) ++n; // the first that reaches amax
    else if (rule == "rceil")
        while (e.max() * two(n) < amax) ++n; // the first at which nothing is clipped
    else {
        int k = 0;
        const double significand = std::frexp(amax, &k); // in [1/2, 1)
        const double rounded = std::nearbyint(std::ldexp(significand, e.mantissa_bits + 1));
        amax = std::ldexp(rounded, k - e.mantissa_bits - 1);
        while (two(n + 1 + e.emax()) <= amax) ++n;
    }
    return n < -127 ? -127 : n > 127 ? 127 : n;
}

struct block {
    std::uint32_t scale = 0;
    std::vector<std::uint32_t> codes;
    std::vector<float> values;
    bool operator==(const block& b) const {
        bool equal = scale == b.scale && codes == b.codes && values.size() == b.values.size();
        for (std::size_t i = 0; equal && i < values.size(); ++i)
            equal = same(values[i], bits_of(b.values[i]));
        return equal;
    }
};

inline bool poisoned(const std::vector<float>& x) {
    bool found = false;
    for (const float v : x) found |= !std::isfinite(v);
    return found;
}
inline double amax(const std::vector<float>& x) {
    double most = 0;
    for (const float v : x) most = std::isfinite(v) ? std::fmax(most, std::fabs(double(v))) : most;
    return most;
}

inline block mx(const std::vector<float>& x, const element& e, const std::string& rule) {
    block b;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::size_t size = x.size();
    if (poisoned(x)) return {0xFF, std::vector<std::uint32_t>(size), std::vector<float>(size, nan)};
    const int n = amax(x) == 0 ? -127 : exponent(amax(x), e, rule);
    b.scale = std::uint32_t(n + 127);
    for (const float v : x) {
        const int code = nearest(v, std::ldexp(1.0, n), e.values);
        const bool minus = std::signbit(v) && (e.sign_bit || code != 0); // int8 has no -0
        const double value = e.values[std::size_t(code)] * std::ldexp(1.0, n);
        const int negative = e.sign_bit ? e.sign_bit + code : 256 - code;
        b.codes.push_back(std::uint32_t(minus ? negative : code));
        b.values.push_back(float(minus ? -value : value)); // exact, or infinite
    }
    return b;
}

/// Blocks that are never uniform: all exponents, of which some spread over the block, some signs,
/// some zeros; now and then a value that lies on or next to the middle of two elements.
inline std::vector<float> random_block(std::uint32_t number, int n, const element& e) {
    std::vector<float> x;
    const auto words = [&](std::uint32_t i) { return mpt::philox({{i, number, 0, 0}}, 26, 3); };
    const mpt::philox4 all = words(1000);
    const int top = int(all.x[0] % 254) - 126, spread = 1 + int(all.x[1] % 24);
    for (int i = 0; i < n; ++i) {
        const mpt::philox4 r = words(std::uint32_t(i));
        const int k = top - int(r.x[0] % std::uint32_t(spread));
        double v = std::ldexp(1 + double(r.x[1] >> 9) / (1 << 23), k);
        if (r.x[2] % 4 == 0) { // a middle, and perhaps one ulp beside it
            const std::size_t c = r.x[1] % (e.values.size() - 1);
            v = std::ldexp((e.values[c] + e.values[c + 1]) / 2, top - e.emax());
            v = float_of(bits_of(float(v)) + r.x[2] / 4 % 3 - (v > 0 && float(v) > 0 ? 1 : 0));
        }
        if (r.x[2] % 32 == 1) v = 0;
        if (!(v < 3.4e38)) v = 0x1.FFFFFEp127;
        x.push_back(float(r.x[3] & 1 ? -v : v));
    }
    return x;
}

} // namespace mx_model
