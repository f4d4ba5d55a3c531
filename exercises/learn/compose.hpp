// SPDX-License-Identifier: MIT
// compose.hpp -- a template, or a wrong answer, from a solution.
//
// In solution.cpp what the learner is to write stands between two markers:
//
//     //< update: S and tracker after a step, about 6 lines
//     ...
//     //> throw exercise::todo("update");
//
// The template has what follows //< as a comment and what follows //> as code (there may be
// several //> lines). A file of mutants/ has other lines for some of these places:
//
//     // mutant: S stays on overflow
//     // fails: halves the scale on overflow
//     //< update
//     ...
#pragma once
#include "mpt/base/error.hpp" // check, join

#include <map>
#include <sstream>
#include <string>
#include <vector>

struct mutant {
    std::string says, fails; // what it does wrong; the part that has to notice
    std::map<std::string, std::string> places;
};

namespace composing {

inline std::string after(const std::string& line, const std::string& marker) {
    const std::size_t at = line.find_first_not_of(' ');
    if (at == std::string::npos || line.compare(at, marker.size(), marker) != 0) return "";
    const std::size_t rest = line.find_first_not_of(' ', at + marker.size());
    return rest == std::string::npos ? " " : line.substr(rest);
}
inline std::string indent(const std::string& line) {
    return line.substr(0, line.find_first_not_of(' '));
}
inline std::string name(const std::string& said) { return said.substr(0, said.find(':')); }

} // namespace composing

inline mutant read_mutant(const std::string& text, const std::string& file) {
    using namespace composing;
    mutant m;
    std::istringstream lines(text);
    std::string line, place;
    while (std::getline(lines, line)) {
        if (place.empty() && !after(line, "// mutant:").empty()) m.says = after(line, "// mutant:");
        if (place.empty() && !after(line, "// fails:").empty()) m.fails = after(line, "// fails:");
        if (const std::string said = after(line, "//<"); !said.empty())
            m.places[place = name(said)] = "";
        else if (!place.empty())
            m.places[place] += line + '\n';
    }
    mpt::check(!m.says.empty() && !m.fails.empty() && !m.places.empty(), file,
               ": wanted \"// mutant: ...\", \"// fails: ...\" and code behind \"//< place\"");
    return m;
}

/// The solution with its places left to the learner, or, given a mutant, with the mutant's lines.
inline std::string compose(const std::string& solution, const std::string& file,
                           const mutant* with = nullptr) {
    using namespace composing;
    std::istringstream lines(solution);
    std::ostringstream out;
    std::string line, place;
    bool behind = false; // the //> line of a place
    int places = 0;
    std::size_t used = 0;
    while (std::getline(lines, line)) {
        const std::string begin = after(line, "//<"), end = after(line, "//>");
        if (!begin.empty()) {
            mpt::check(place.empty(), file, ": //< ", begin, " inside of another place");
            place = name(begin);
            ++places;
            behind = false;
            if (!with) out << indent(line) << "// YOURS, " << begin << '\n';
            const auto other = with ? with->places.find(place) : decltype(with->places.find("")){};
            if (with && other != with->places.end()) out << other->second, ++used;
        } else if (!end.empty()) {
            mpt::check(!place.empty(), file, ": //> ", end, " without //< before");
            behind = true; // one blank behind the marker, then the line with its own indentation
            const std::size_t code = indent(line).size() + 4;
            if (!with && line.size() > code) out << indent(line) << line.substr(code) << '\n';
        } else {
            if (behind) place.clear(), behind = false;
            const bool own = place.empty();
            const bool kept = with && !own && !with->places.count(place);
            if (own || kept) out << line << '\n';
        }
    }
    mpt::check(place.empty() || behind, file, ": ", place, " has no //>");
    mpt::check(places > 0, file, ": nothing is left to the learner; mark a place with //< and //>");
    mpt::check(!with || used == with->places.size(), file,
               ": a mutant has a place that the solution does not have");
    return out.str();
}
