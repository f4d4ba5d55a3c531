// SPDX-License-Identifier: MIT
// number_lines.hpp -- the numbers of each format as an SVG file: how far they reach and with how
// many bits, and every one of them from 0 to 8.
#pragma once
#include "figure.hpp" // figure: frame and colours

#include "mpt/numeric/fp4_fp6.hpp" // e2m1, e2m3, e3m2
#include "mpt/numeric/fp8.hpp"     // e4m3, e5m2
#include "mpt/numeric/scalar.hpp"  // format: how many bits; fp16, bf16, tf32

#include <cmath>
#include <string>
#include <vector>

// What a picture shows of a format.
struct number_line {
    std::string name;
    int bits;                              // of significand
    double max, min_normal, min_subnormal; // min_normal 0: fixed point
    std::vector<double> values;            // from 0 up to 8; none: too many
};

class number_lines {
public:
    explicit number_lines(std::vector<number_line> formats) : formats_(std::move(formats)) {}

    // False when the file cannot be written.
    bool save(const std::string& path) const { return save_svg(path, svg()); }

    std::string svg() const {
        const double bottom = reach_top + reach_row * double(formats_.size());
        std::size_t rows = 0;
        for (const number_line& f : formats_) rows += !f.values.empty();
        const double top = bottom + 92, height = top + tick_row * double(rows) + 26;
        std::string in_words = "Range in powers of two and bits of significand:";
        for (const number_line& f : formats_)
            in_words += ' ' + f.name + " " + std::to_string(f.bits) + " bits up to " +
                        figure::number(f.max) + ';';
        figure picture(width, height, "Number formats: range, precision and values", in_words);
        reach(picture, bottom);
        values(picture, top);
        return picture.svg();
    }

private:
    static constexpr double width = 760, left = 64, right = 84;
    static constexpr double reach_top = 64, reach_row = 31, tick_row = 30;
    static constexpr double least = -152, most = 132; // powers of two on the first axis

    static double across(double part) { return left + part * (width - left - right); }

    // One shape a format: as wide as its range, as high as its bits of significand; where numbers
    // are subnormal, one bit less for each power of two.
    void reach(figure& p, double bottom) const {
        const auto px = [](double power) { return across((power - least) / (most - least)); };
        p.text(left, 24, "Range and precision", figure::large);
        p.text(left, 44, "height: bits of significand; the slope: subnormal numbers",
               figure::soft_text());
        for (int power = -140; power <= 120; power += 20) {
            p.out << "<path d=\"M" << px(power) << ' ' << reach_top - 8 << 'V' << bottom << "\" "
                  << figure::grid_line() << "/>\n<text x=\"" << px(power) << "\" y=\""
                  << bottom + 18 << "\" font-size=\"12\" " << figure::centred << '>'
                  << (power == 0 ? "1" : exponent(power)) << "</text>\n";
        }
        for (std::size_t i = 0; i < formats_.size(); ++i) {
            const number_line& f = formats_[i];
            const double base = reach_top + reach_row * double(i + 1) - 5, bit = 1.05;
            const double from = std::log2(f.min_subnormal), to = std::log2(f.max);
            const double normal = f.min_normal > 0 ? std::log2(f.min_normal) : to;
            p.out << "<path d=\"M" << px(from) << ' ' << base << 'V' << base - bit << 'L'
                  << px(normal) << ' ' << base - bit * f.bits << 'H' << px(to) << 'V' << base
                  << "Z\" " << figure::fill(0) << "/>\n";
            p.text(left - 10, base, f.name, figure::ends);
            p.text(width - right + 12, base, std::to_string(f.bits) + " bits", small());
        }
    }

    // Every number from 0 to 8; longer those that are powers of two, from 1/4 on, and 0.
    void values(figure& p, double top) const {
        const auto px = [](double v) { return across(v / 8); };
        p.text(left, top - 30, "Every number from 0 to 8", figure::large);
        p.text(left, top - 10,
               "long: 0 and powers of two from 1/4 on; on the right: how many there are",
               figure::soft_text());
        double y = top;
        for (const number_line& f : formats_) {
            if (f.values.empty()) continue;
            const double base = y + 20;
            p.out << "<path d=\"M" << px(0) << ' ' << base << 'H' << px(8) << "\" "
                  << figure::grid_line() << "/>\n<path d=\"";
            for (const double v : f.values) {
                int exponent = 0;
                const bool power = std::frexp(v, &exponent) == 0.5 && v >= 0.25;
                p.out << 'M' << px(v) << ' ' << base << 'v' << (v == 0 || power ? -17 : -10);
            }
            p.out << "\" " << figure::ink_line() << " stroke-width=\"0.9\"/>\n";
            p.text(left - 10, base, f.name, figure::ends);
            p.text(width - right + 12, base, std::to_string(f.values.size()), small());
            y += tick_row;
        }
        for (int v = 0; v <= 8; ++v) p.text(px(v), y + 14, std::to_string(v), figure::centred);
    }

    static std::string small() { return figure::soft_text() + " font-size=\"12\""; }
    static std::string exponent(int power) { // 2 with a raised power
        return "2<tspan dy=\"-4\" font-size=\"9\">" + std::to_string(power) + "</tspan>";
    }

    std::vector<number_line> formats_;
};

// A format's numbers; all codes up to 8, where it has but a byte.
template <class T>
number_line line_of() {
    using f = mpt::format<T>;
    number_line l{mpt::name<T>(),        f::mantissa_bits + 1,     double(f::max),
                  double(f::min_normal), double(f::min_subnormal), {}};
    if constexpr (sizeof(T) == 1)
        for (std::uint32_t code = 0; code <= T::max_code; ++code)
            if (const double v = mpt::widen(T::from_bits(std::uint8_t(code))); v <= 8)
                l.values.push_back(v);
    return l;
}
inline number_line line_of_int8() { // scaled so that its steps are 1/16
    number_line l{"int8", 7, 127 / 16., 0, 1 / 16., {}};
    for (int code = 0; code < 128; ++code) l.values.push_back(code / 16.);
    return l;
}

inline number_lines all_number_lines() {
    using namespace mpt;
    return number_lines({line_of<float>(), line_of<tf32>(), line_of<bf16>(), line_of<fp16>(),
                         line_of<e5m2>(), line_of<e4m3>(), line_of<e3m2>(), line_of<e2m3>(),
                         line_of<e2m1>(), line_of_int8()});
}
