// SPDX-License-Identifier: MIT
// mutate.hpp -- how much a grader notices: small changes of the solution, one at a time, at random.
//
// An operator, a constant or a condition becomes another one, a statement is left out, two lines
// change places. What does not compile counts for nothing. A change that changes no answer (an
// equivalent one) is named in exercises/ID/equivalent.txt, a line each:
//     line of the solution => changed line  # why no answer changes
#pragma once
#include "attempt.hpp"
#include "compose.hpp"

#include "mpt/base/file.hpp" // output_file

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

struct change {
    std::size_t line;              // of the solution, from 0
    std::string was, is;           // without indentation
    std::vector<std::string> text; // the whole file
};

namespace mutating {

inline std::string trimmed(const std::string& line) {
    const std::size_t from = line.find_first_not_of(' ');
    if (from == std::string::npos) return "";
    const std::size_t comment = line.find("//");
    std::string code = line.substr(from, comment == std::string::npos ? comment : comment - from);
    while (!code.empty() && code.back() == ' ') code.pop_back();
    return code;
}

inline std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// What a statement changes: "sum" of "sum[i] += x;", "" where that is not plain.
inline std::string changed_by(const std::string& code) {
    const std::size_t from = code.find_first_not_of("+-(*");
    std::size_t end = from;
    while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) ||
                                 code[end] == '_' || code[end] == '.'))
        ++end;
    const std::string name = code.substr(from, end - from);
    return name.rfind("const", 0) == 0 || code.find('(') == end ? "" : name;
}
/// Do two statements have nothing to do with each other? Then their order does not matter.
inline bool apart(const std::string& a, const std::string& b) {
    const std::string x = changed_by(a), y = changed_by(b);
    return !x.empty() && !y.empty() && a.find(y) == std::string::npos &&
           b.find(x) == std::string::npos;
}

/// All changes of the lines between markers.
inline std::vector<change> all_changes(const std::string& solution) {
    static const std::vector<std::pair<std::string, std::vector<std::string>>> other = {
        {" + ", {" - "}},
        {" - ", {" + "}},
        {" * ", {" / "}},
        {" / ", {" * "}},
        {" < ", {" <= ", " > "}},
        {" > ", {" >= ", " < "}},
        {" <= ", {" < "}},
        {" >= ", {" > "}},
        {" == ", {" != "}},
        {" != ", {" == "}},
        {" && ", {" || "}},
        {" || ", {" && "}},
        {" += ", {" -= ", " = "}},
        {" -= ", {" += "}},
        {"++", {"--"}},
        {"--", {"++"}},
        {"max(", {"min("}},
        {"min(", {"max("}},
        {"true", {"false"}},
        {"false", {"true"}}};
    const std::vector<std::string> text = lines_of(solution);
    std::vector<change> all;
    bool inside = false;
    std::size_t before = 0; // the line before, if inside
    const auto add = [&](std::size_t i, const std::string& line) {
        change c{i, trimmed(text[i]), trimmed(line), text};
        if (c.was == c.is) return;
        c.text[i] = line;
        all.push_back(std::move(c));
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string& line = text[i];
        if (!composing::after(line, "//<").empty()) {
            inside = true;
            before = 0;
            continue;
        }
        if (!composing::after(line, "//>").empty() || line.find("//>") != std::string::npos)
            inside = false;
        if (!inside) continue;
        const std::string code = trimmed(line);
        const std::size_t end =
            line.find("//") == std::string::npos ? line.size() : line.find("//");
        for (const auto& [from, list] : other)
            for (std::size_t at = line.find(from); at < end; at = line.find(from, at + 1))
                for (const std::string& to : list)
                    add(i, line.substr(0, at) + to + line.substr(at + from.size()));
        for (std::size_t at = 0; at < end; ++at) { // whole numbers
            const auto digit = [&](std::size_t k) {
                return k < end && std::isdigit(static_cast<unsigned char>(line[k]));
            };
            const bool word = at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) ||
                                         line[at - 1] == '_' || line[at - 1] == '.');
            if (!digit(at) || word) continue;
            std::size_t stop = at;
            while (digit(stop)) ++stop;
            if (stop < end &&
                (std::isalnum(static_cast<unsigned char>(line[stop])) || line[stop] == '.'))
                continue;
            if (stop - at > 9) continue;
            const long n = std::stol(line.substr(at, stop - at));
            for (const long m : {n + 1, n - 1})
                if (m >= 0) add(i, line.substr(0, at) + std::to_string(m) + line.substr(stop));
            at = stop;
        }
        if (!code.empty() && code.back() == ';' && code.rfind("return", 0) != 0 &&
            code.rfind("const ", 0) != 0)
            add(i, composing::indent(line) + ";"); // left out
        if (!code.empty() && code.back() == ';') {
            if (before && composing::indent(text[before]) == composing::indent(line)) {
                change c{i, trimmed(text[before]) + " " + code, code + " " + trimmed(text[before]),
                         text};
                std::swap(c.text[i], c.text[before]);
                if (c.was != c.is && !apart(trimmed(text[before]), code))
                    all.push_back(std::move(c));
            }
            before = i;
        } else {
            before = 0;
        }
    }
    return all;
}

inline std::set<std::pair<std::string, std::string>> equivalent(const std::filesystem::path& file) {
    std::set<std::pair<std::string, std::string>> known;
    if (!std::filesystem::exists(file)) return known;
    for (const std::string& line : lines_of(whole_file(file))) {
        const std::size_t arrow = line.find(" => "), why = line.find("  # ");
        mpt::check(arrow != std::string::npos && why != std::string::npos && why > arrow,
                   file.string(),
                   ": wanted \"line => changed line  # why no answer changes\", found ", line);
        known.insert({line.substr(0, arrow), line.substr(arrow + 4, why - arrow - 4)});
    }
    return known;
}

} // namespace mutating

struct mutation_run {
    int tried = 0, noticed = 0, equivalent = 0, broken = 0; // broken: does not compile
    std::vector<change> survivors;
};

/// At most `count` changes of the solution that compile, chosen by `seed`; 0: all.
template <class Heard>
mutation_run mutate(const exercise_info& e, const std::filesystem::path& build, int count,
                    std::uint64_t seed, Heard heard) {
    const std::string target = "exercise." + e.id + ".mutation";
    const auto source = build / "exercises" / e.id / "mutation.cpp";
    std::vector<change> all = mutating::all_changes(whole_file(e.file("solution.cpp")));
    std::mt19937_64 chance(seed);
    std::shuffle(all.begin(), all.end(), chance);
    const auto known = mutating::equivalent(e.file("equivalent.txt"));
    std::string output;
    const auto built = [&](const std::string& text) {
        mpt::output_file file("mutation", source.string());
        file.write(text);
        file.commit();
        output.clear();
        return ran({"cmake", "--build", build.string(), "--target", target}, output);
    };
    const auto right = [&] {
        return grade_program(e, (build / "bin" / target).string(), fresh_seed(),
                             parameters_of(e, ""))
            .right();
    };
    // Where the solution itself is wrong, every change would be noticed.
    mpt::check(built(whole_file(e.file("solution.cpp"))), "mutate: the solution of ", e.id,
               " does not compile: ", first_error(output));
    mpt::check(right(), "mutate: the solution of ", e.id, " is not right; './run learn prove ",
               e.id, "' says why");
    mutation_run r;
    for (const change& c : all) {
        if (count > 0 && r.tried == count) break;
        std::string text;
        for (const std::string& line : c.text) text += line + '\n';
        if (!built(text)) {
            ++r.broken;
            continue;
        }
        ++r.tried;
        if (!right())
            ++r.noticed;
        else if (known.count({c.was, c.is}))
            ++r.equivalent;
        else
            r.survivors.push_back(c);
        heard(r);
    }
    mpt::check(r.tried > 0 || all.empty(), "mutate: none of ", r.broken, " changes of ", e.id,
               " compiles: ", first_error(output));
    return r;
}
