// SPDX-License-Identifier: MIT
// figure.hpp -- what all pictures share: the frame of an SVG file, a title and a description for
// those who do not see it, and colours for light and for dark paper.
#pragma once
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

// A colour is an attribute, which every program that shows SVG reads: that is light mode. The style
// sheet changes it where the reader's screen is dark; browsers ask for that in an <img>, too.
namespace paint {
struct colour {
    const char *light, *dark;
};
inline constexpr colour paper = {"#ffffff", "#161616"};
inline constexpr colour ink = {"#222222", "#e6e6e6"};
inline constexpr colour soft = {"#5a5a5a", "#a8a8a8"}; // text that may be passed over
inline constexpr colour grid = {"#dddddd", "#3a3a3a"}; // lines that are not data
inline constexpr colour cell = {"#eeeeee", "#2a2a2a"}; // the ground of a table's cell
// Lines and areas: 3 to 1 against their paper and more, told apart without colour vision.
inline constexpr colour strong[] = {
    {"#0072b2", "#4aa8e0"}, {"#c25100", "#f08a3c"}, {"#008560", "#2fc39a"},
    {"#b0588f", "#dd8fb9"}, {"#6e6e6e", "#a8a8a8"}, {"#2f8dc6", "#9ad2f2"},
    {"#a07800", "#f0c674"}, {"#7a6000", "#d9b93a"}, {"#3b4a9c", "#8f9df0"},
};
// The first five hues to write on, 7 to 1 against ink; the strong colour is their rim.
inline constexpr colour tints[] = {
    {"#cfe6f5", "#0d4468"}, {"#fbdcc3", "#6b3410"}, {"#c9ebdf", "#0b4f3d"},
    {"#f2d7e7", "#5c2f4c"}, {"#e3e3e3", "#454545"},
};
constexpr std::size_t strong_count = sizeof strong / sizeof *strong;
constexpr std::size_t tint_count = sizeof tints / sizeof *tints;
} // namespace paint

class figure {
public:
    std::ostringstream out; // shapes, in the order in which they cover each other

    figure(double width, double height, const std::string& title, const std::string& description) {
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\""
            << paint::ink.light << "\">\n<title>" << escaped(title) << "</title>\n<desc>"
            << escaped(description)
            << "</desc>\n<style>@media(prefers-color-scheme:dark){text{fill:" << paint::ink.dark
            << "}.paper{fill:" << paint::paper.dark << "}.soft{fill:" << paint::soft.dark
            << "}.grid{stroke:" << paint::grid.dark << "}.cell{fill:" << paint::cell.dark
            << "}.ink{stroke:" << paint::ink.dark << '}';
        for (std::size_t k = 0; k < paint::strong_count; ++k)
            out << ".f" << k << "{fill:" << paint::strong[k].dark << "}.s" << k
                << "{stroke:" << paint::strong[k].dark << '}';
        for (std::size_t k = 0; k < paint::tint_count; ++k)
            out << ".t" << k << "{fill:" << paint::tints[k].dark
                << ";stroke:" << paint::strong[k].dark << '}';
        out << "}</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\" fill=\""
            << paint::paper.light << "\"/>\n";
    }

    // look: attributes, such as centred or soft_text().
    void text(double x, double y, const std::string& what, const std::string& look = "") {
        out << "<text x=\"" << x << "\" y=\"" << y << '"' << (look.empty() ? "" : " ") << look
            << '>' << escaped(what) << "</text>\n";
    }
    void ground(double x, double y, std::size_t columns, double height) { // below a key
        out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << 7 * double(columns)
            << "\" height=\"" << height << "\" class=\"paper\" fill=\"" << paint::paper.light
            << "\" fill-opacity=\"0.85\"/>\n";
    }
    void text_upwards(double x, double y, const std::string& what) { // read from below
        out << "<text transform=\"translate(" << x << ' ' << y
            << ") rotate(-90)\" text-anchor=\"middle\">" << escaped(what) << "</text>\n";
    }

    // Attributes that give an element its colour in both modes.
    static std::string fill(std::size_t k) { return painted("fill", 'f', k % paint::strong_count); }
    static std::string stroke(std::size_t k) {
        return painted("stroke", 's', k % paint::strong_count);
    }
    static std::string tint(std::size_t k) { // with a rim
        k %= paint::tint_count;
        return "class=\"t" + std::to_string(k) + "\" fill=\"" + paint::tints[k].light +
               "\" stroke=\"" + paint::strong[k].light + '"';
    }
    static std::string soft_text() {
        return std::string("class=\"soft\" fill=\"") + paint::soft.light + '"';
    }
    static std::string grid_line() {
        return std::string("class=\"grid\" stroke=\"") + paint::grid.light + '"';
    }
    static std::string cell_ground() {
        return std::string("class=\"cell\" fill=\"") + paint::cell.light + '"';
    }
    static std::string ink_line() {
        return std::string("class=\"ink\" stroke=\"") + paint::ink.light + '"';
    }
    static constexpr const char *centred = "text-anchor=\"middle\"", *ends = "text-anchor=\"end\"",
                                *large = "font-size=\"16\"";

    static std::string number(double v) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%.6g", v);
        return digits;
    }
    static std::string escaped(const std::string& text) {
        std::string safe;
        for (const char c : text)
            safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
        return safe;
    }

    std::string svg() const { return out.str() + "</svg>\n"; }

private:
    static std::string painted(const char* what, char letter, std::size_t k) {
        return std::string("class=\"") + letter + std::to_string(k) + "\" " + what + "=\"" +
               paint::strong[k].light + '"';
    }
};

// False when the file cannot be written.
inline bool save_svg(const std::string& path, const std::string& svg) {
    std::ofstream file(path);
    file << svg;
    return bool(file.flush());
}
