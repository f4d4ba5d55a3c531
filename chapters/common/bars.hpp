// SPDX-License-Identifier: MIT
// bars.hpp -- stacked bars as an SVG file: a height for each kind, light and dark mode.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
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
        std::ostringstream out;
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n<title>"
            << title
            << "</title>\n<style>@media(prefers-color-scheme:dark){text{fill:#ddd}"
               ".paper{fill:#161616}.grid{stroke:#3a3a3a}}</style>\n"
               "<rect width=\"100%\" height=\"100%\" class=\"paper\" fill=\"#fff\"/>\n";
        text(out, left, 22, title, "font-size=\"16\"");
        for (double v = 0; v <= most; v += step) {
            out << "<path d=\"M" << left << ' ' << py(v) << 'H' << width - right
                << "\" class=\"grid\" stroke=\"#ddd\"/>";
            text(out, left - 8, py(v) + 4, number(v), "text-anchor=\"end\"");
        }
        out << "<text transform=\"translate(16 " << (top + height - bottom) / 2
            << ") rotate(-90)\" text-anchor=\"middle\">" << y_name << "</text>\n";
        for (std::size_t i = 0; i < all.size(); ++i) {
            const double x = left + slot * (double(i) + 0.16), wide = slot * 0.68;
            double base = 0;
            for (std::size_t k = 0; k < kinds.size(); ++k) {
                const double h = all[i].heights[k];
                if (h > 0)
                    out << "<rect x=\"" << x << "\" y=\"" << py(base + h) << "\" width=\"" << wide
                        << "\" height=\"" << py(base) - py(base + h) << "\" fill=\"" << colour(k)
                        << "\"/>\n";
                base += h;
            }
            text(out, x + wide / 2, py(base) - 6, all[i].above, "text-anchor=\"middle\"");
            text(out, x + wide / 2, height - bottom + 18, all[i].label, "text-anchor=\"middle\"");
            text(out, x + wide / 2, height - bottom + 35, all[i].below, "text-anchor=\"middle\"");
        }
        double y = top + 12; // the key, in the order of the stack, of kinds that are there
        for (std::size_t k = kinds.size(); k-- > 0;) {
            if (std::none_of(all.begin(), all.end(),
                             [k](const bar& b) { return b.heights[k] > 0; }))
                continue;
            out << "<rect x=\"" << width - right - 190 << "\" y=\"" << y - 11
                << "\" width=\"14\" height=\"14\" fill=\"" << colour(k) << "\"/>";
            text(out, width - right - 168, y + 1, kinds[k]);
            y += 18;
        }
        out << "</svg>\n";
        return out.str();
    }

    // False when the file cannot be written.
    bool save(const std::string& path) const {
        std::ofstream file(path);
        file << svg();
        return bool(file.flush());
    }

private:
    static constexpr double width = 760, height = 420, left = 62, right = 18, top = 64, bottom = 52;

    static double sum(const bar& b) {
        double s = 0;
        for (const double h : b.heights) s += h;
        return s;
    }
    static void text(std::ostringstream& out, double x, double y, const std::string& what,
                     const char* look = "") {
        out << "<text x=\"" << x << "\" y=\"" << y << "\" " << look << '>' << what << "</text>\n";
    }
    // Told apart without colour vision, neighbours by lightness as well; none is lost on black.
    static const char* colour(std::size_t k) {
        constexpr const char* colours[] = {"#0072b2", "#56b4e9", "#8a6d00", "#d55e00", "#f0b445",
                                           "#009e73", "#7f7f7f", "#cc79a7", "#b8b8b8"};
        return colours[k % std::size(colours)];
    }
    static double round_step(double v) { // 1, 2 or 5 times a power of ten
        const double power = std::pow(10, std::floor(std::log10(v)));
        for (const double f : {1.0, 2.0, 5.0})
            if (v <= f * power) return f * power;
        return 10 * power;
    }
    static std::string number(double v) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.6g", v);
        return digits;
    }
};
