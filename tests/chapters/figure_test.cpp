// SPDX-License-Identifier: MIT
// Pictures can be read: on white paper and on black, and by those who do not see them.
#include "../../chapters/common/bars.hpp"
#include "../../chapters/common/plot.hpp"
#include "../../chapters/common/timeline.hpp"

#include <doctest/doctest.h>

namespace {
double luminance(const std::string& colour) { // WCAG 2.1, relative luminance
    double sum = 0;
    for (const auto& [at, weight] : {std::pair{1, 0.2126}, {3, 0.7152}, {5, 0.0722}}) {
        const double c = std::stoi(colour.substr(std::size_t(at), 2), nullptr, 16) / 255.;
        sum += weight * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}
double contrast(const std::string& a, const std::string& b) {
    const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
    return std::max(x, y) / std::min(x, y);
}
bool has(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}
// Every class that an element has is one whose colour changes on dark paper.
bool dark_too(const std::string& svg) {
    const std::string sheet =
        svg.substr(svg.find("<style>"), svg.find("</style>") - svg.find("<style>"));
    if (!has(sheet, "prefers-color-scheme:dark") || !has(sheet, "text{fill:")) return false;
    for (std::size_t at = 0; (at = svg.find("class=\"", at)) != std::string::npos;) {
        at += 7;
        if (!has(sheet, "." + svg.substr(at, svg.find('"', at) - at) + "{")) return false;
    }
    // ... and no area has a colour without one
    for (std::size_t at = 0; (at = svg.find("fill=\"#", at)) != std::string::npos; ++at)
        if (const std::size_t open = svg.rfind('<', at); svg.compare(open, 4, "<svg") != 0)
            if (!has(svg.substr(open, at - open), "class=\"")) return false;
    return true;
}
const plot curves{"a < b & c",
                  "step",
                  "loss",
                  {{"one", {{0, 1}, {1, 3}}},
                   {"dots", {{0, 2}, {1, 1}}, curve::dots},
                   {"faint", {{0, 1}, {1, 2}}, curve::faint},
                   {"flat", {{0, 1.5}}, curve::level}}};
const bars stacks{"Bytes", "GB", {"weights", "moments"}, {{"1 rank", "ddp", "16", {4, 12}}}};
const timeline order{"Order", "events", {"backward"}, {{0, 0, 2, "block 1", 4}}};
} // namespace

TEST_CASE("text is 7 to 1 against its paper, shapes are 3 to 1") {
    for (const bool dark : {false, true}) {
        const auto side = [dark](const paint::colour& c) { return dark ? c.dark : c.light; };
        CHECK(contrast(side(paint::ink), side(paint::paper)) >= 7);
        CHECK(contrast(side(paint::soft), side(paint::paper)) >= 4.5);
        CHECK(contrast(side(paint::ink), side(paint::cell)) >= 7);
        for (const paint::colour& c : paint::strong)
            CHECK(contrast(side(c), side(paint::paper)) >= 3);
        for (const paint::colour& c : paint::tints) CHECK(contrast(side(paint::ink), side(c)) >= 7);
    }
    CHECK(contrast("#ffffff", "#000000") == doctest::Approx(21));
    CHECK(contrast("#56b4e9", "#ffffff") < 3); // such a colour would be found
}

TEST_CASE("a picture has words, and a colour for dark paper wherever it has one for white") {
    for (const std::string& svg : {curves.svg(), stacks.svg(), order.svg()}) {
        CHECK(dark_too(svg));
        CHECK(has(svg, "role=\"img\""));
    }
    CHECK(has(curves.svg(), "<title>a &lt; b &amp; c</title>"));
    CHECK(has(curves.svg(), "<desc>loss over step: one, dots, faint, flat</desc>"));
    CHECK(has(stacks.svg(), "<desc>Bars of GB: 1 rank ddp 16;</desc>"));
    CHECK(has(order.svg(), "<desc>In time, from left to right, the lanes backward</desc>"));
}

TEST_CASE("sabotage: a colour that dark paper does not change is found") {
    std::string svg = curves.svg();
    const std::size_t at = svg.find("class=\"f1\" ");
    REQUIRE(at != std::string::npos);
    CHECK_FALSE(dark_too(svg.substr(0, at) + svg.substr(at + 11)));
    CHECK_FALSE(dark_too(svg.substr(0, at) + "class=\"f99\" " + svg.substr(at + 11)));
}
