// SPDX-License-Identifier: MIT
// bars.hpp -- stacked bars as an SVG file: a height for each kind.
#pragma once
#include "figure.hpp" // figure: frame and colours

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

struct bar {
    std::string label, below, above; // two lines below the bar; over it
    std::vector<double> heights;     // of each kind, from the bottom
};

struct bars {
    std::string title, y_name;
    std::vector<std::string> kinds;
    std::vector<bar> all;

    std::string svg() const {
        double most = 0;
        for (const bar& b : all) most = std::max(most, sum(b));
        most = most > 0 ? most : 1;
        const double step = round_step(most / 5),
                     slot = (width - left - right) / double(all.size());
        const auto py = [&](double v) {
            return height - bottom - v / most * (height - top - bottom);
        };
        std::string in_words = "Bars of " + y_name + ":";
        for (const bar& b : all)
            in_words += ' ' + b.label + (b.below.empty() ? "" : " ") + b.below + " " +
                        (b.above.empty() ? figure::number(sum(b)) : b.above) + ';';
        figure f(width, height, title, in_words);
        f.text(left, 22, title, figure::large);
        for (double v = 0; v <= most; v += step) {
            f.out << "<path d=\"M" << left << ' ' << py(v) << 'H' << width - right << "\" "
                  << figure::grid_line() << "/>";
            f.text(left - 8, py(v) + 4, figure::number(v), figure::ends);
        }
        f.text_upwards(16, (top + height - bottom) / 2, y_name);
        for (std::size_t i = 0; i < all.size(); ++i) {
            const double x = left + slot * (double(i) + 0.16), wide = slot * 0.68;
            double base = 0;
            for (std::size_t k = 0; k < kinds.size(); ++k) {
                const double h = all[i].heights[k], high = py(base) - py(base + h);
                if (h > 0) // a gap of paper tells neighbours apart
                    f.out << "<rect x=\"" << x << "\" y=\"" << py(base + h) << "\" width=\"" << wide
                          << "\" height=\"" << (high > 3 ? high - 1 : high) << "\" "
                          << figure::fill(k) << "/>\n";
                base += h;
            }
            f.text(x + wide / 2, py(base) - 6, all[i].above, figure::centred);
            f.text(x + wide / 2, height - bottom + 18, all[i].label, figure::centred);
            f.text(x + wide / 2, height - bottom + 35, all[i].below, figure::centred);
        }
        std::vector<std::size_t>
            shown; // the key, in the order of the stack, of kinds that are there
        for (std::size_t k = kinds.size(); k-- > 0;)
            if (std::any_of(all.begin(), all.end(), [k](const bar& b) { return b.heights[k] > 0; }))
                shown.push_back(k);
        double y = top + 12;
        const double x = width - right - 190;
        std::size_t longest = 0;
        for (const std::size_t k : shown) longest = std::max(longest, kinds[k].size());
        f.ground(x - 6, y - 15, longest + 5, 18 * double(shown.size()) + 4);
        for (const std::size_t k : shown) {
            f.out << "<rect x=\"" << x << "\" y=\"" << y - 11 << "\" width=\"14\" height=\"14\" "
                  << figure::fill(k) << "/>";
            f.text(x + 22, y + 1, kinds[k]);
            y += 18;
        }
        return f.svg();
    }

    // False when the file cannot be written.
    bool save(const std::string& path) const { return save_svg(path, svg()); }

private:
    static constexpr double width = 760, height = 420, left = 62, right = 18, top = 64, bottom = 52;

    static double sum(const bar& b) {
        double s = 0;
        for (const double h : b.heights) s += h;
        return s;
    }
    static double round_step(double v) { // 1, 2 or 5 times a power of ten
        const double power = std::pow(10, std::floor(std::log10(v)));
        for (const double f : {1.0, 2.0, 5.0})
            if (v <= f * power) return f * power;
        return 10 * power;
    }
};
