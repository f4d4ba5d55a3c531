// SPDX-License-Identifier: MIT
// plot.hpp -- curves as an SVG file: axes with round numbers, a legend.
#pragma once
#include "figure.hpp" // figure: frame and colours

#include <algorithm>
#include <cmath>
#include <limits>
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
        std::string in_words = y_name + " over " + x_name + ":";
        for (const curve& c : curves) in_words += (&c == &curves[0] ? " " : ", ") + c.name;
        figure f(width, height, title, in_words);
        f.text(left, 22, title, figure::large);
        for (const double v : ticks(y0, y1)) {
            f.out << "<path d=\"M" << left << ' ' << py(v) << 'H' << width - right << "\" "
                  << figure::grid_line() << "/>";
            f.text(left - 8, py(v) + 4, figure::number(v), figure::ends);
        }
        for (const double v : ticks(x0, x1)) { // a digit is about 8 wide: none past the edge
            const std::string tick = figure::number(v);
            f.text(std::min(px(v), width - 5 * double(tick.size())), height - bottom + 18, tick,
                   figure::centred);
        }
        f.text((left + width - right) / 2, height - 8, x_name, figure::centred);
        f.text_upwards(16, (top + height - bottom) / 2, y_name);
        for (std::size_t i = 0; i < curves.size(); ++i) {
            const curve& c = curves[i];
            if (c.style != curve::dots) f.out << "<path d=\"";
            if (c.style == curve::level && !c.points.empty())
                f.out << 'M' << left << ' ' << py(c.points[0].second) << 'H' << width - right;
            bool down = false; // the pen
            for (const auto& [at, v] : c.points) {
                if (c.style == curve::level) break;
                if (!std::isfinite(v)) {
                } else if (c.style == curve::dots) {
                    f.out << "<circle cx=\"" << px(at) << "\" cy=\"" << py(v) << look(i);
                } else {
                    f.out << (down ? 'L' : 'M') << px(at) << ' ' << py(v);
                }
                down = std::isfinite(v);
            }
            if (c.style != curve::dots) f.out << look(i);
        }
        const double rows = 18 * double(curves.size());
        const double key = key_left ? left + 16 : width - right - 190;
        double row = (key_below ? height - bottom - rows - 12 : top) + 16;
        std::size_t longest = 0;
        for (const curve& c : curves) longest = std::max(longest, c.name.size());
        f.ground(key - 6, row - 14, longest + 6, rows);
        for (std::size_t i = 0; i < curves.size(); ++i, row += 18) {
            if (curves[i].style == curve::dots)
                f.out << "<circle cx=\"" << key + 12 << "\" cy=\"" << row - 4 << look(i);
            else
                f.out << "<path d=\"M" << key << ' ' << row - 4 << "h24" << look(i);
            f.text(key + 32, row, curves[i].name);
        }
        return f.svg();
    }

    // False when the file cannot be written.
    bool save(const std::string& path) const { return save_svg(path, svg()); }

private:
    static constexpr double width = 760, height = 420, left = 62, right = 18, top = 36, bottom = 48;

    std::string look(std::size_t i) const { // the end of a curve's or a dot's element
        const int style = curves[i].style;
        if (style == curve::dots) return "\" r=\"3.5\" " + figure::fill(i) + "/>";
        return "\" fill=\"none\" " + figure::stroke(i) +
               (style == curve::faint   ? " stroke-width=\"1\" opacity=\"0.65\"/>"
                : style == curve::level ? " stroke-width=\"2\" stroke-dasharray=\"7 5\"/>"
                                        : " stroke-width=\"2\"/>");
    }
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
};
