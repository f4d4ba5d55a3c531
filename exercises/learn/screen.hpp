// SPDX-License-Identifier: MIT
// screen.hpp -- what the learner sees: one failure, and the one obvious next command.
#pragma once
#include "report.hpp"
#include "workshop.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <unistd.h>

/// Everything for people goes to stderr; in colour on a terminal, unless NO_COLOR is set.
class screen {
public:
    screen()
        : terminal_(isatty(2) && isatty(0)),
          colour_(isatty(2) && !std::getenv("NO_COLOR") &&
                  std::string(std::getenv("TERM") ? std::getenv("TERM") : "dumb") != "dumb") {}

    bool terminal() const { return terminal_; }
    std::string green(const std::string& s) const { return paint("32", s); }
    std::string red(const std::string& s) const { return paint("31", s); }
    std::string bold(const std::string& s) const { return paint("1", s); }

    void say(const std::string& line) const { std::fprintf(stderr, "%s\n", line.c_str()); }

    void progress(const workshop& shop, const std::vector<exercise_info>& all) const {
        int done = 0, points = 0, of = 0;
        for (const exercise_info& e : all) {
            of += e.points;
            if (shop.status(e) == "done") ++done, points += e.points;
        }
        const int width = 40, filled = of ? width * points / of : 0;
        say("[" + green(std::string(std::size_t(filled), '#')) +
            std::string(std::size_t(width - filled), '.') + "] " + std::to_string(done) + " of " +
            std::to_string(all.size()) + " exercises, " + std::to_string(points) + " of " +
            std::to_string(of) + " points");
    }

    void task(const exercise_info& e, const workshop& shop) const {
        say(bold(e.title) + "  (" + e.id + ", chapter " + std::to_string(e.number) + " " +
            e.chapter + ", " + std::to_string(e.points) + " points, about " +
            std::to_string(e.minutes) + " minutes)");
        std::string mine;
        for (const auto& [name, value] : parameters_of(e, shop.student))
            mine += (mine.empty() ? "" : ", ") + name + " = " + std::to_string(value);
        if (!mine.empty()) say("yours       " + mine);
        say("write in    " + shop.answer(e).string());
    }

    /// The first thing that is wrong, or that all is right; all: every part.
    void show(const attempt& a, const std::string& answer, bool all) const {
        const exercise_info& e = *a.exercise;
        if (!a.compile_error.empty()) {
            say(red("does not compile") + "\n" + a.compile_error);
            return;
        }
        if (a.right()) {
            say(green("right") + ", " + std::to_string(a.score) + " of " +
                std::to_string(e.points) + " points");
            return;
        }
        for (const graded& g : a.parts) {
            if (g.got.right()) {
                say(green("  right ") + g.part.name);
                continue;
            }
            say(red("  wrong ") + g.part.name + " (" + std::to_string(g.part.points) + " points)");
            const verdict& v = g.got;
            say("    " + v.what + (v.where.empty() ? "" : ", " + v.where));
            if (!v.found.empty() || !v.expected.empty()) {
                say("    found     " + v.found);
                say("    expected  " + v.expected +
                    (v.tolerance.empty() ? "" : ", within " + v.tolerance));
            }
            if (!v.why.empty()) say("    why       " + v.why);
            if (!v.printed.empty()) say("    it wrote  " + v.printed.substr(0, 2000));
            if (!all) break;
        }
        say("points      " + std::to_string(a.score) + " of " + std::to_string(e.points));
        say("answer      " + answer + ":1");
        say("again       ./run learn test " + e.id + " --seed " + a.seed);
        say("help        ./run learn hint " + e.id);
    }

private:
    std::string paint(const char* code, const std::string& s) const {
        return colour_ ? std::string("\033[") + code + "m" + s + "\033[0m" : s;
    }
    bool terminal_, colour_;
};
