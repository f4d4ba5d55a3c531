// SPDX-License-Identifier: MIT
// pair_bars.hpp -- two quantities of several ways to do a thing, as horizontal bars side by side, each
// with a mark where it was expected; an SVG file, light and dark mode.
#pragma once
#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

struct pair_bars {
    struct row {
        std::string name;
        std::array<double, 2> found, expected;
    };
    std::string title, note;            // note: below, what bar and mark are
    std::array<std::string, 2> columns; // what each of the two is
    std::vector<row> rows;

    std::string svg() const {
        const double bottom = top + high * double(rows.size()), height = bottom + 34;
        std::ostringstream out;
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n<title>"
            << title
            << "</title>\n<style>@media(prefers-color-scheme:dark){text{fill:#ddd}"
               ".paper{fill:#161616}.mark{stroke:#eee}.grid{stroke:#3a3a3a}}</style>\n"
               "<rect width=\"100%\" height=\"100%\" class=\"paper\" fill=\"#fff\"/>\n";
        text(out, 12, 22, title, "font-size=\"16\"");
        for (std::size_t i = 0; i < rows.size(); ++i)
            text(out, left - 12, top + high * double(i) + 18, rows[i].name, "text-anchor=\"end\"");
        for (std::size_t c = 0; c < 2; ++c) {
            const double x = left + double(c) * (wide + gap);
            double most = 1;
            for (const row& r : rows) most = std::max({most, r.found[c], r.expected[c]});
            text(out, x, top - 10, columns[c], "font-weight=\"bold\"");
            out << "<path d=\"M" << x << ' ' << top << 'V' << bottom
                << "\" class=\"grid\" stroke=\"#999\"/>\n";
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const double y = top + high * double(i), scale = (wide - 44) / most;
                const double to = x + rows[i].found[c] * scale;
                const double mark = x + rows[i].expected[c] * scale;
                out << "<rect x=\"" << x << "\" y=\"" << y + 4 << "\" width=\"" << to - x
                    << "\" height=\"" << high - 8 << "\" fill=\""
                    << (c == 0 ? "#56b4e9" : "#009e73") << "\"/><path d=\"M" << mark << ' ' << y + 2
                    << 'v' << high - 4 << "\" class=\"mark\" stroke=\"#222\" stroke-width=\"2\"/>";
                std::ostringstream number;
                number << rows[i].found[c];
                text(out, std::max(to, mark) + 7, y + 18, number.str());
            }
        }
        text(out, left, height - 10, note);
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
    static constexpr double width = 900, left = 218, gap = 24, wide = 322, top = 62, high = 26;
    static void text(std::ostringstream& out, double x, double y, const std::string& what,
                     const char* look = "") {
        out << "<text x=\"" << x << "\" y=\"" << y << "\" " << look << '>' << what << "</text>\n";
    }
};
