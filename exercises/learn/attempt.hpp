// SPDX-License-Identifier: MIT
// attempt.hpp -- build an answer, run its grader's parts, add up the points.
#pragma once
#include "child.hpp"
#include "exercise.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

struct graded {
    part_info part;
    verdict got;
};

struct attempt {
    const exercise_info* exercise = nullptr;
    std::string compile_error; // the first, where it does not compile
    std::string seed;
    std::vector<graded> parts;
    int score = 0;
    double compile_seconds = 0, seconds = 0;

    bool right() const { return compile_error.empty() && score == exercise->points; }
    /// Points that there were: with secret parts more than exercise.json says.
    int most() const {
        int sum = 0;
        for (const graded& g : parts) sum += g.part.points;
        return sum ? sum : exercise->points;
    }
    /// The first part that was lost; nullptr: none.
    const graded* first_lost() const {
        for (const graded& g : parts)
            if (!g.got.right()) return &g;
        return nullptr;
    }
};

inline std::string fresh_seed() {
    std::random_device device;
    return mpt::join("0x", std::hex, device());
}

/// A seed as it is printed, or any whole number of 64 bits; throws where `text` is something else.
inline std::uint64_t seed_of(const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const std::uint64_t seed = std::strtoull(text.c_str(), &end, 0);
    mpt::check(!text.empty() && *end == 0 && errno == 0 && text[0] != '-', "--seed ", text,
               ": wanted a whole number, such as 0x5eed or 7");
    return seed;
}

/// From a compiler's output: the first error, and the lines that show it.
inline std::string first_error(const std::string& output) {
    std::string found;
    int lines = 0;
    std::istringstream in(output);
    for (std::string line; std::getline(in, line);) {
        if (found.empty() && line.find(": error:") == std::string::npos &&
            line.find(": fatal error:") == std::string::npos &&
            line.find("undefined reference") == std::string::npos)
            continue;
        if (!found.empty() && line.find("error:") != std::string::npos) break;
        found += line + '\n';
        if (++lines == 6) break;
    }
    return found.empty() ? output.substr(0, 2000) : found;
}

/// What a command prints, and whether it succeeded. The command is a list of words.
inline bool ran(const std::vector<std::string>& words, std::string& output) {
    int out[2];
    mpt::check(pipe(out) == 0, "learn: no pipe (", std::strerror(errno), ")");
    const pid_t child = fork();
    mpt::check(child >= 0, "learn: no process (", std::strerror(errno), ")");
    if (child == 0) {
        const int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        close(out[0]);
        close(out[1]);
        std::vector<char*> argv;
        for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
        argv.push_back(nullptr);
        execvp(argv[0], argv.data());
        _exit(127);
    }
    close(out[1]);
    char room[4096];
    for (ssize_t n; (n = read(out[0], room, sizeof room)) > 0 || (n < 0 && errno == EINTR);)
        if (n > 0) output.append(room, std::size_t(n));
    close(out[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Parts of a program that is built. `heard`: after each part, for a progress bar.
inline attempt grade_program(const exercise_info& e, const std::string& program,
                             const std::string& seed, const std::map<std::string, long>& parameters,
                             const std::function<void(const graded&)>& heard = {},
                             bool exactly = true) {
    attempt a;
    a.exercise = &e;
    a.seed = seed;
    const limits most{double(e.timeout), e.memory};
    const std::vector<part_info> parts = parts_of(program);
    int total = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        a.parts.push_back({parts[k], run_part(program, int(k), seed, parameters, most)});
        total += parts[k].points;
        if (a.parts.back().got.right()) a.score += parts[k].points;
        a.seconds += a.parts.back().got.seconds;
        if (heard) heard(a.parts.back());
    }
    mpt::check(!exactly || total == e.points, "exercise ", e.id, ": its parts have ", total,
               " points, exercise.json says ", e.points, "; make both the same");
    return a;
}

/// Built by CMake's target, then graded.
inline attempt grade_answer(const exercise_info& e, const std::filesystem::path& build,
                            const std::string& seed, const std::map<std::string, long>& parameters,
                            const std::function<void(const graded&)>& heard = {}) {
    const std::string target = "exercise." + e.id + ".mine";
    std::string output;
    const auto began = std::chrono::steady_clock::now();
    const bool built = ran({"cmake", "--build", build.string(), "--target", target}, output);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    attempt a;
    if (built) {
        a = grade_program(e, (build / "bin" / target).string(), seed, parameters, heard);
    } else {
        a.exercise = &e;
        a.seed = seed;
        a.compile_error = first_error(output);
    }
    a.compile_seconds = took.count();
    return a;
}
