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
struct ink_and_paper {
    const char *light, *dark;
};
inline constexpr ink_and_paper paper = {"#ffffff", "#161616"}, ink = {"#222222", "#e6e6e6"},
                               soft = {"#5a5a5a", "#a8a8a8"}, // text that may be passed over
    grid = {"#dddddd", "#3a3a3a"},                            // lines that are not data
    cell = {"#eeeeee", "#2a2a2a"};                            // the ground of a table's cell
// Lines and areas: 3 to 1 against their paper and more, told apart without colour vision.
inline constexpr ink_and_paper strong[] = {
    {"#0072b2", "#4aa8e0"}, {"#c25100", "#f08a3c"}, {"#008560", "#2fc39a"},
    {"#b0588f", "#dd8fb9"}, {"#7a6000", "#d9b93a"}, {"#2f8dc6", "#9ad2f2"},
    {"#a07800", "#f0c674"}, {"#6e6e6e", "#a8a8a8"}, {"#3b4a9c", "#8f9df0"},
};
// The same hues to write on, 7 to 1 against ink; strong[same] is their rim.
inline constexpr ink_and_paper tints[] = {
    {"#cfe6f5", "#0d4468"}, {"#fbdcc3", "#6b3410"}, {"#c9ebdf", "#0b4f3d"}, {"#f2d7e7", "#5c2f4c"},
    {"#e9e0bd", "#4d3f08"}, {"#d6ebf8", "#1c4a66"}, {"#f2e2b8", "#544012"}, {"#e3e3e3", "#454545"},
};
constexpr std::size_t strong_colours = sizeof strong / sizeof *strong;
constexpr std::size_t tint_colours = sizeof tints / sizeof *tints;

class figure {
public:
    std::ostringstream out; // shapes, in the order in which they cover each other

    figure(double width, double height, const std::string& title, const std::string& description) {
        out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << ' ' << height
            << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\" fill=\"" << ink.light
            << "\">\n<title>" << escaped(title) << "</title>\n<desc>" << escaped(description)
            << "</desc>\n<style>@media(prefers-color-scheme:dark){text{fill:" << ink.dark
            << "}.paper{fill:" << paper.dark << "}.soft{fill:" << soft.dark
            << "}.grid{stroke:" << grid.dark << "}.cell{fill:" << cell.dark
            << "}.ink{stroke:" << ink.dark << '}';
        for (std::size_t k = 0; k < strong_colours; ++k)
            out << ".f" << k << "{fill:" << strong[k].dark << "}.s" << k
                << "{stroke:" << strong[k].dark << '}';
        for (std::size_t k = 0; k < tint_colours; ++k)
            out << ".t" << k << "{fill:" << tints[k].dark << ";stroke:" << strong[k].dark << '}';
        out << "}</style>\n<rect width=\"100%\" height=\"100%\" class=\"paper\" fill=\""
            << paper.light << "\"/>\n";
    }

    // look: attributes, such as centred or soft_text().
    void text(double x, double y, const std::string& what, const std::string& look = "") {
        out << "<text x=\"" << x << "\" y=\"" << y << '"' << (look.empty() ? "" : " ") << look
            << '>' << escaped(what) << "</text>\n";
    }
    void ground(double x, double y, double width, double height) { // below a key, above the data
        out << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
            << height << "\" class=\"paper\" fill=\"" << paper.light
            << "\" fill-opacity=\"0.85\"/>\n";
    }
    void text_upwards(double x, double y, const std::string& what) { // read from below
        out << "<text transform=\"translate(" << x << ' ' << y
            << ") rotate(-90)\" text-anchor=\"middle\">" << escaped(what) << "</text>\n";
    }

    // Attributes that give an element its colour in both modes.
    static std::string fill(std::size_t k) { return painted("fill", 'f', k % strong_colours); }
    static std::string stroke(std::size_t k) { return painted("stroke", 's', k % strong_colours); }
    static std::string tint(std::size_t k) { // with a rim
        k %= tint_colours;
        return "class=\"t" + std::to_string(k) + "\" fill=\"" + tints[k].light + "\" stroke=\"" +
               strong[k].light + '"';
    }
    static std::string soft_text() {
        return std::string("class=\"soft\" fill=\"") + soft.light + '"';
    }
    static std::string grid_line() {
        return std::string("class=\"grid\" stroke=\"") + grid.light + '"';
    }
    static std::string cell_ground() {
        return std::string("class=\"cell\" fill=\"") + cell.light + '"';
    }
    static std::string ink_line() {
        return std::string("class=\"ink\" stroke=\"") + ink.light + '"';
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
               strong[k].light + '"';
    }
};

// False when the file cannot be written.
inline bool save_svg(const std::string& path, const std::string& svg) {
    std::ofstream file(path);
    file << svg;
    return bool(file.flush());
}
