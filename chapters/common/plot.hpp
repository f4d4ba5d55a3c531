// SPDX-License-Identifier: MIT
// plot.hpp -- curves as an SVG file: axes with round numbers, a legend, light and dark mode.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

struct curve {
    std::string name;
    std::vector<std::pair<double, double>> points;  // points that are not finite leave a gap
    enum { line, faint, dots, level } style = line; // level: one height, across the whole width
};

struct plot {
    std::string title, x_name, y_name;
    std::vector<curve> curves;
    bool key_below = false; // the legend at the lower right, not at the upper
    bool key_left = false;  // ... at the left

    std::string svg() const {
        const auto x = span(0), y = span(1);
        const double pad = std::max((y.second - y.first) * 0.05, 1e-9);
        const double x0 = x.first, x1 = x.second, y0 = y.first - pad, y1 = y.second + pad;
        const auto px = [&](double v) {
            return left + (v - x0) / std::max(x1 - x0, 1e-9) * (width - left - right);
        };
        const auto py = [&](double v) {
            return height - bottom - (v - y0) / (y1 - y0) * (height - top - bottom);
        };
        std::ostringstream out;
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n<title>"
            << escaped(title)
            // Attributes say light; the style sheet, where it is read at all, may say dark.
            << "</title>\n<style>@media(prefers-color-scheme:dark){text{fill:#ddd}"
               ".paper{fill:#161616}.grid{stroke:#3a3a3a}}</style>\n"
               "<rect width=\"100%\" height=\"100%\" "
               "class=\"paper\" fill=\"#fff\"/>\n";
        out << "<text x=\"" << left << "\" y=\"22\" font-size=\"16\">" << escaped(title)
            << "</text>\n";
        for (const double v : ticks(y0, y1)) {
            out << "<path d=\"M" << left << ' ' << py(v) << 'H' << width - right
                << "\" class=\"grid\" stroke=\"#ddd\"/><text x=\"" << left - 8 << "\" y=\""
                << py(v) + 4 << "\" text-anchor=\"end\">" << number(v) << "</text>\n";
        }
        for (const double v : ticks(x0, x1))
            out << "<text x=\"" << px(v) << "\" y=\"" << height - bottom + 18
                << "\" text-anchor=\"middle\">" << number(v) << "</text>\n";
        out << "<text x=\"" << (left + width - right) / 2 << "\" y=\"" << height - 8
            << "\" text-anchor=\"middle\">" << escaped(x_name)
            << "</text>\n<text transform=\"translate(16 " << (top + height - bottom) / 2
            << ") rotate(-90)\" text-anchor=\"middle\">" << escaped(y_name) << "</text>\n";
        // Colours that are told apart without colour vision, and other strokes as well.
        const std::array<const char*, 5> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                    "#8a6d00"};
        for (std::size_t i = 0; i < curves.size(); ++i) {
            const curve& c = curves[i];
            const char* colour = colours[i % colours.size()];
            const double from = key_below ? height - bottom - 18 * double(curves.size()) - 12 : top;
            const double row = from + 16 + 18 * double(i);
            const double key = key_left ? left + 16 : width - right - 190;
            const bool dashed = c.style == curve::level;
            if (c.style == curve::dots) {
                for (const auto& [x, v] : c.points)
                    if (std::isfinite(v))
                        out << "<circle cx=\"" << px(x) << "\" cy=\"" << py(v)
                            << "\" r=\"3.5\" fill=\"" << colour << "\"/>";
                out << "<circle cx=\"" << key + 12 << "\" cy=\"" << row - 4
                    << "\" r=\"3.5\" fill=\"" << colour << "\"/>";
            } else {
                const std::string look = std::string("\" fill=\"none\" stroke=\"") + colour +
                                         "\" stroke-width=\"" +
                                         (c.style == curve::faint ? "1" : "2") +
                                         (c.style == curve::faint ? "\" opacity=\"0.45" : "") +
                                         (dashed ? "\" stroke-dasharray=\"7 5" : "") + "\"/>";
                out << "<path d=\"";
                if (dashed && !c.points.empty()) {
                    out << 'M' << left << ' ' << py(c.points[0].second) << 'H' << width - right;
                } else {
                    bool down = false; // the pen
                    for (const auto& [x, v] : c.points) {
                        if (std::isfinite(v)) out << (down ? 'L' : 'M') << px(x) << ' ' << py(v);
                        down = std::isfinite(v);
                    }
                }
                out << look << "<path d=\"M" << key << ' ' << row - 4 << "h24" << look;
            }
            out << "<text x=\"" << key + 32 << "\" y=\"" << row << "\">" << escaped(c.name)
                << "</text>\n";
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
    static constexpr double width = 760, height = 420, left = 62, right = 18, top = 36, bottom = 48;

    std::pair<double, double> span(int axis) const {
        double least = std::numeric_limits<double>::infinity(), most = -least;
        for (const curve& c : curves)
            for (const auto& p : c.points) {
                const double v = axis == 0 ? p.first : p.second;
                if (!std::isfinite(v) || (axis == 0 && c.style == curve::level)) continue;
                least = std::min(least, v);
                most = std::max(most, v);
            }
        if (!(least <= most)) return {0, 1};
        return least == most ? std::pair{least - 0.5, most + 0.5} : std::pair{least, most};
    }
    // 1, 2 or 5 times a power of ten apart.
    static std::vector<double> ticks(double from, double to) {
        double step = std::pow(10, std::floor(std::log10((to - from) / 5)));
        for (const double more : {2.0, 2.5, 2.0})
            if ((to - from) / step > 7) step *= more;
        std::vector<double> at;
        for (double v = std::ceil(from / step) * step; v <= to; v += step)
            at.push_back(std::abs(v) < step / 1e6 ? 0 : v);
        return at;
    }
    static std::string number(double v) {
        char text[32];
        std::snprintf(text, sizeof text, "%.6g", v);
        return text;
    }
    static std::string escaped(const std::string& text) {
        std::string out;
        for (const char c : text)
            out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
        return out;
    }
};
