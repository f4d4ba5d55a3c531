// SPDX-License-Identifier: MIT
// timeline.hpp -- what happened in which order, lane by lane, as an SVG file.
#pragma once
#include "figure.hpp" // figure: frame and colours

#include <algorithm>
#include <string>
#include <vector>

struct span_of_time {
    std::size_t lane;
    double from, to; // events, not seconds
    std::string label;
    std::size_t colour = 0;
    enum { all, upper, lower } part = all; // of the lane
};

struct timeline {
    std::string title, x_name;
    std::vector<std::string> lanes;
    std::vector<span_of_time> spans;

    std::string svg() const {
        double end = 1;
        for (const span_of_time& s : spans) end = std::max(end, s.to);
        const double height = top + row * double(lanes.size()) + 34;
        const auto px = [&](double v) { return left + v / end * (width - left - right); };
        std::string in_words = "In time, from left to right, the lanes";
        for (const std::string& l : lanes) in_words += (&l == &lanes[0] ? " " : ", ") + l;
        figure f(width, height, title, in_words);
        f.text(12, 22, title, figure::large);
        for (std::size_t l = 0; l < lanes.size(); ++l) {
            const double y = top + row * double(l);
            f.out << "<path d=\"M" << left << ' ' << y + row << 'H' << width - right << "\" "
                  << figure::grid_line() << "/>";
            f.text(12, y + row / 2 + 5, lanes[l]);
        }
        for (const span_of_time& s : spans) {
            const double high = s.part == span_of_time::all ? row - 8 : row / 2 - 5;
            const double x = px(s.from), y = top + row * double(s.lane) +
                                             (s.part == span_of_time::lower ? row / 2 + 1 : 4);
            f.out << "<rect x=\"" << x + 1 << "\" y=\"" << y << "\" width=\"" << px(s.to) - x - 2
                  << "\" height=\"" << high << "\" rx=\"3\" " << figure::tint(s.colour) << "/>";
            f.text((x + px(s.to)) / 2, y + high / 2 + 5, s.label, figure::centred);
        }
        f.text((left + width - right) / 2, height - 10, x_name, figure::centred);
        return f.svg();
    }

    // False when the file cannot be written.
    bool save(const std::string& path) const { return save_svg(path, svg()); }

private:
    static constexpr double width = 900, left = 120, right = 14, top = 38, row = 34;
};
