// SPDX-License-Identifier: MIT
// pair_bars.hpp -- two quantities of several ways to do a thing, as bars side by side, each with a
// mark where it was expected; an SVG file.
#pragma once
#include "figure.hpp" // figure: frame and colours

#include <algorithm>
#include <array>
#include <string>
#include <vector>

struct pair_bars {
    struct row {
        std::string name;
        std::array<double, 2> found, expected;
    };
    std::string title, note;            // note: what bar and mark are
    std::array<std::string, 2> columns; // what each of the two is
    std::vector<row> rows;

    std::string svg() const {
        const double bottom = top + high * double(rows.size());
        std::string in_words = columns[0] + ", " + columns[1] + ":";
        for (const row& r : rows)
            in_words += ' ' + r.name + ' ' + figure::number(r.found[0]) + ", " +
                        figure::number(r.found[1]) + ';';
        figure f(width, bottom + 34, title, in_words);
        f.text(12, 22, title, figure::large);
        for (std::size_t i = 0; i < rows.size(); ++i)
            f.text(left - 12, top + high * double(i) + 18, rows[i].name, figure::ends);
        for (std::size_t c = 0; c < 2; ++c) {
            const double x = left + double(c) * (wide + gap);
            double most = 1;
            for (const row& r : rows) most = std::max({most, r.found[c], r.expected[c]});
            const double scale = (wide - 44) / most;
            f.text(x, top - 10, columns[c]);
            f.out << "<path d=\"M" << x << ' ' << top << 'V' << bottom << "\" "
                  << figure::grid_line() << "/>\n";
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const double y = top + high * double(i), found = rows[i].found[c] * scale;
                const double mark = x + rows[i].expected[c] * scale;
                f.out << "<rect x=\"" << x << "\" y=\"" << y + 5 << "\" width=\"" << found
                      << "\" height=\"" << high - 10 << "\" " << figure::fill(c) << "/><path d=\"M"
                      << mark << ' ' << y + 2 << 'v' << high - 4 << "\" " << figure::ink_line()
                      << " stroke-width=\"2\"/>";
                f.text(std::max(x + found, mark) + 7, y + 18, figure::number(rows[i].found[c]));
            }
        }
        f.text(left, bottom + 24, note);
        return f.svg();
    }

    // False when the file cannot be written.
    bool save(const std::string& path) const { return save_svg(path, svg()); }

private:
    static constexpr double width = 900, left = 196, gap = 24, wide = 333, top = 62, high = 26;
};
