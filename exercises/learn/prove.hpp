// SPDX-License-Identifier: MIT
// prove.hpp -- graders are graded: the template gets less than all, the solution all, and each
// wrong answer loses the part that it names.
#pragma once
#include "attempt.hpp"
#include "compose.hpp"
#include "report.hpp"
#include "workshop.hpp"

#include <filesystem>
#include <string>
#include <vector>

/// What is wrong with the exercise, a line each; programs are in `bin`.
inline std::vector<std::string> prove(const exercise_info& e, const std::filesystem::path& bin) {
    std::vector<std::string> bad;
    const auto program = [&](const std::string& which) {
        return (bin / ("exercise." + e.id + "." + which)).string();
    };
    const auto say = [&](const auto&... what) { bad.push_back(mpt::join(e.id, ": ", what...)); };

    const std::string students[] = {"", "a", "b"};
    for (const std::string& student : students) {
        const attempt a =
            grade_program(e, program("solution"), fresh_seed(), parameters_of(e, student));
        if (const graded* lost = a.first_lost())
            say("the solution loses \"", lost->part.name, "\" with seed ", a.seed,
                " for student \"", student, "\": ", reports::message(lost->got));
        for (const graded& g : a.parts)
            if (g.got.cpu_seconds > e.timeout / 4.0) // a machine may be busy
                say("\"", g.part.name, "\" costs the solution ", g.got.cpu_seconds, " s of ",
                    e.timeout);
    }

    const attempt empty = grade_program(e, program("template"), fresh_seed(), parameters_of(e, ""));
    if (empty.right()) say("the template gets all points");
    for (const graded& g : empty.parts)
        if (g.got.status == "crash" || g.got.status == "timeout")
            say("the template ends \"", g.part.name, "\" by: ", g.got.what);

    int mutants = 0;
    for (const auto& entry : std::filesystem::directory_iterator(e.folder / "mutants")) {
        const std::string name = entry.path().stem().string();
        const mutant m = read_mutant(whole_file(entry.path()), entry.path().string());
        const attempt a =
            grade_program(e, program("mutant." + name), fresh_seed(), parameters_of(e, ""));
        bool known = false;
        for (const graded& g : a.parts) {
            if (g.part.name != m.fails) continue;
            known = true;
            if (g.got.right())
                say("mutant ", name, " (", m.says, ") keeps \"", m.fails, "\" with seed ", a.seed);
        }
        if (!known) say("mutant ", name, ": no part is called \"", m.fails, "\"");
        ++mutants;
    }
    if (mutants < 2) say(mutants, " mutants, wanted 2 or more");

    const std::string hints = whole_file(e.file("hints.md"));
    for (const char* section : {"## Hint 1\n", "## Hint 2\n", "## Hint 3\n", "## Solution\n"})
        if (hints.find(section) == std::string::npos) say("hints.md has no \"", section, "\"");
    return bad;
}
