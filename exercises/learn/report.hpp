// SPDX-License-Identifier: MIT
// report.hpp -- grades as text, JSON, JUnit's XML, and what Gradescope reads.
#pragma once
#include "attempt.hpp"

#include "mpt/base/json_write.hpp" // quote
#include "mpt/base/version.hpp"    // version

#include <sstream>
#include <string>
#include <vector>

namespace reports {

inline std::string message(const verdict& v) {
    std::string text = v.what;
    if (!v.where.empty()) text += ", " + v.where;
    if (!v.found.empty() || !v.expected.empty())
        text += ": found " + v.found + ", expected " + v.expected;
    if (!v.tolerance.empty()) text += " (" + v.tolerance + ")";
    if (!v.why.empty()) text += "; " + v.why;
    return text;
}

inline int points(const std::vector<attempt>& all) {
    int sum = 0;
    for (const attempt& a : all) sum += a.exercise->points;
    return sum;
}
inline int score(const std::vector<attempt>& all) {
    int sum = 0;
    for (const attempt& a : all) sum += a.score;
    return sum;
}

inline std::string text(const std::vector<attempt>& all) {
    std::ostringstream s;
    for (const attempt& a : all) {
        s << a.exercise->id << "  " << a.score << "/" << a.exercise->points << "  seed " << a.seed
          << '\n';
        if (!a.compile_error.empty()) s << "  does not compile: " << a.compile_error;
        for (const graded& g : a.parts) {
            s << "  " << (g.got.right() ? g.part.points : 0) << "/" << g.part.points << "  "
              << g.part.name << '\n';
            if (!g.got.right()) s << "       " << message(g.got) << '\n';
        }
    }
    s << "in all " << score(all) << "/" << points(all) << '\n';
    return s.str();
}

inline std::string json(const std::vector<attempt>& all) {
    using mpt::json::quote;
    std::ostringstream s;
    s << "{\"schema\":\"mpt-grade/1\",\"mpt_version\":" << quote(mpt::version)
      << ",\"score\":" << score(all) << ",\"max_score\":" << points(all) << ",\"exercises\":[";
    const char* comma = "\n";
    for (const attempt& a : all) {
        s << comma << "{\"id\":" << quote(a.exercise->id) << ",\"score\":" << a.score
          << ",\"max_score\":" << a.exercise->points << ",\"seed\":" << quote(a.seed)
          << ",\"time_s\":" << mpt::json::number(a.seconds);
        if (!a.compile_error.empty()) s << ",\"compile_error\":" << quote(a.compile_error);
        s << ",\"tests\":[";
        const char* part_comma = "";
        for (const graded& g : a.parts) {
            s << part_comma << "{\"name\":" << quote(g.part.name) << ",\"points\":" << g.part.points
              << ",\"status\":" << quote(g.got.status);
            if (!g.got.right()) s << ",\"message\":" << quote(message(g.got));
            s << "}";
            part_comma = ",";
        }
        s << "]}";
        comma = ",\n";
    }
    s << "\n]}\n";
    return s.str();
}

/// results.json of a Gradescope autograder.
inline std::string gradescope(const std::vector<attempt>& all) {
    using mpt::json::quote;
    std::ostringstream s;
    s << "{\"score\":" << score(all) << ",\"tests\":[";
    const char* comma = "\n";
    for (const attempt& a : all) {
        if (!a.compile_error.empty()) {
            s << comma << "{\"name\":" << quote(a.exercise->id + ": compiles")
              << ",\"score\":0,\"max_score\":" << a.exercise->points
              << ",\"output\":" << quote(a.compile_error) << ",\"visibility\":\"visible\"}";
            comma = ",\n";
        }
        for (const graded& g : a.parts) {
            s << comma << "{\"name\":" << quote(a.exercise->id + ": " + g.part.name)
              << ",\"score\":" << (g.got.right() ? g.part.points : 0)
              << ",\"max_score\":" << g.part.points << ",\"output\":"
              << quote(g.got.right() ? "right" : message(g.got) + "\nseed " + a.seed)
              << ",\"visibility\":\"visible\"}";
            comma = ",\n";
        }
    }
    s << "\n]}\n";
    return s.str();
}

inline std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) >= 32 || c == '\n' || c == '\t')
            out += c;
    }
    return out;
}

inline std::string junit(const std::vector<attempt>& all) {
    std::ostringstream s;
    s << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
    for (const attempt& a : all) {
        std::size_t lost = 0;
        for (const graded& g : a.parts) lost += g.got.right() ? 0 : 1;
        const bool broken = !a.compile_error.empty();
        s << "<testsuite name=\"" << a.exercise->id << "\" tests=\"" << a.parts.size() + broken
          << "\" failures=\"" << lost << "\" errors=\"" << int(broken) << "\" time=\"" << a.seconds
          << "\">\n";
        const std::string of = "mpt." + a.exercise->chapter + "." + a.exercise->id;
        if (broken)
            s << "<testcase classname=\"" << of << "\" name=\"compiles\"><error message=\""
              << escaped(a.compile_error) << "\"/></testcase>\n";
        for (const graded& g : a.parts) {
            s << "<testcase classname=\"" << of << "\" name=\"" << escaped(g.part.name)
              << "\" time=\"" << g.got.seconds << "\">";
            if (!g.got.right()) s << "<failure message=\"" << escaped(message(g.got)) << "\"/>";
            s << "</testcase>\n";
        }
        s << "</testsuite>\n";
    }
    s << "</testsuites>\n";
    return s.str();
}

} // namespace reports
