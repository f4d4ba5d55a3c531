// SPDX-License-Identifier: MIT
// timeline.hpp -- what happened in which order, lane by lane, as an SVG file; light and dark mode.
#pragma once
#include <algorithm>
#include <fstream>
#include <sstream>
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
        std::ostringstream out;
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n<title>"
            << title
            << "</title>\n<style>@media(prefers-color-scheme:dark){.out{fill:#ddd}"
               ".paper{fill:#161616}.grid{stroke:#3a3a3a}}</style>\n"
               "<rect width=\"100%\" height=\"100%\" class=\"paper\" fill=\"#fff\"/>\n<text "
               "x=\"12\""
               " y=\"22\" font-size=\"16\" class=\"out\">"
            << title << "</text>\n";
        for (std::size_t l = 0; l < lanes.size(); ++l) {
            const double y = top + row * double(l);
            out << "<path d=\"M" << left << ' ' << y + row << 'H' << width - right
                << "\" class=\"grid\" stroke=\"#ddd\"/><text x=\"12\" y=\"" << y + row / 2 + 5
                << "\" class=\"out\">" << lanes[l] << "</text>\n";
        }
        // Light enough for dark text on either paper.
        constexpr const char* colours[] = {"#8cc3e6", "#f3c07a", "#8fd1b5", "#e3a8c6", "#c9c9c9"};
        for (const span_of_time& s : spans) {
            const double high = s.part == span_of_time::all ? row - 8 : row / 2 - 5;
            const double x = px(s.from), y = top + row * double(s.lane) +
                                             (s.part == span_of_time::lower ? row / 2 + 1 : 4);
            out << "<rect x=\"" << x + 1 << "\" y=\"" << y << "\" width=\"" << px(s.to) - x - 2
                << "\" height=\"" << high << "\" rx=\"3\" fill=\"" << colours[s.colour % 5]
                << "\"/><text x=\"" << (x + px(s.to)) / 2 << "\" y=\"" << y + high / 2 + 5
                << "\" text-anchor=\"middle\">" << s.label << "</text>\n";
        }
        out << "<text x=\"" << (left + width - right) / 2 << "\" y=\"" << height - 10
            << "\" text-anchor=\"middle\" class=\"out\">" << x_name << "</text>\n</svg>\n";
        return out.str();
    }

    // False when the file cannot be written.
    bool save(const std::string& path) const {
        std::ofstream file(path);
        file << svg();
        return bool(file.flush());
    }

private:
    static constexpr double width = 900, left = 120, right = 14, top = 38, row = 34;
};
