// SPDX-License-Identifier: MIT
// submissions.hpp -- the answers of many students, compiled and graded side by side.
//
// An answer is compiled by the very command that CMake has for the exercise, and linked with the
// grader that CMake has built; nothing of the student but answer.cpp is used.
#pragma once
#include "attempt.hpp"
#include "report.hpp"

#include "mpt/base/json.hpp" // parse

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

struct submission {
    std::string student;
    std::vector<attempt> attempts; // one an exercise, in their order
    int score() const {
        int sum = 0;
        for (const attempt& a : attempts) sum += a.score;
        return sum;
    }
};

/// How CMake compiles a file: by the command's words, with -o and the source left out.
class compile_commands {
public:
    explicit compile_commands(const std::filesystem::path& build) : build_(build) {
        const auto path = build / "compile_commands.json";
        mpt::check(std::filesystem::exists(path), "course: ", path.string(),
                   " is missing; './run build' makes it");
        all_ = mpt::json::parse(whole_file(path), path.string());
    }
    /// For the source whose path ends so. object: what CMake makes of it.
    std::vector<std::string> of(const std::string& ending, std::string& object) const {
        for (const mpt::json::value& entry : all_.items) {
            const std::string& file = entry.find("file")->text;
            if (file.size() < ending.size() ||
                file.compare(file.size() - ending.size(), ending.size(), ending) != 0)
                continue;
            std::vector<std::string> words, kept;
            std::istringstream in(entry.find("command")->text);
            for (std::string w; in >> w;) words.push_back(w);
            for (std::size_t i = 0; i < words.size(); ++i) {
                if (words[i] == "-o" && i + 1 < words.size())
                    object = (build_ / words[++i]).string();
                else if (words[i] != "-c" && words[i] != file)
                    kept.push_back(words[i]);
            }
            return kept;
        }
        throw mpt::error(mpt::join("course: ", build_.string(), " does not compile ", ending,
                                   "; './run build' first"));
    }

private:
    std::filesystem::path build_;
    mpt::json::value all_;
};

namespace submitting {

/// Everything of one exercise that is compiled once.
struct ready {
    const exercise_info* exercise;
    std::vector<std::string> compile; // an answer
    std::vector<std::string> objects; // grader, main, the secret parts
    std::vector<std::string> link;    // flags
};

inline attempt grade_one(const ready& r, const std::filesystem::path& answer,
                         const std::string& student, const std::filesystem::path& work,
                         const std::string& seed) {
    attempt a;
    a.exercise = r.exercise;
    a.seed = seed;
    if (!std::filesystem::exists(answer)) {
        a.compile_error = "no answer was handed in\n";
        return a;
    }
    const std::string stem = (work / (student + "." + r.exercise->id)).string(),
                      program = stem + ".program";
    std::vector<std::string> compile = r.compile;
    compile.insert(compile.end(), {"-c", answer.string(), "-o", stem + ".o"});
    std::vector<std::string> link = {
        r.compile.front() == "ccache" ? r.compile[1] : r.compile.front(), stem + ".o"};
    link.insert(link.end(), r.objects.begin(), r.objects.end());
    link.insert(link.end(), r.link.begin(), r.link.end());
    link.insert(link.end(), {"-pthread", "-o", program});
    std::string output;
    if (!ran(compile, output) || !ran(link, output)) {
        a.compile_error = first_error(output);
        return a;
    }
    a = grade_program(*r.exercise, program, seed, parameters_of(*r.exercise, student), {}, false);
    std::filesystem::remove(stem + ".o");
    std::filesystem::remove(program);
    return a;
}

} // namespace submitting

/// Every student's folder in `from`, every exercise; `exercises` outlives what is returned. Answers
/// may print, hang and crash.
inline std::vector<submission> grade_submissions(const std::filesystem::path& from,
                                                 const std::vector<exercise_info>& exercises,
                                                 const std::filesystem::path& build,
                                                 const std::string& secret, const std::string& seed,
                                                 int jobs) {
    using namespace submitting;
    mpt::check(std::filesystem::is_directory(from), "course: ", from.string(),
               " is no folder; give one with a "
               "folder a student");
    std::vector<submission> all;
    for (const auto& entry : std::filesystem::directory_iterator(from))
        if (entry.is_directory()) all.push_back({entry.path().filename().string(), {}});
    mpt::check(!all.empty(), "course: ", from.string(), " has no folders; wanted one a student");
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.student < b.student; });

    const std::filesystem::path work = build / "course";
    std::filesystem::create_directories(work);
    const compile_commands commands(build);
    std::vector<ready> list;
    for (const exercise_info& e : exercises) {
        std::string output, object;
        mpt::check(ran({"cmake", "--build", build.string(), "--target",
                        "exercise." + e.id + ".grader", "exercise_main"},
                       output),
                   "course: the grader of ", e.id, " does not compile: ", first_error(output));
        ready r{&e, commands.of("/" + e.id + "/mutation.cpp", object), {}, {}};
        std::vector<std::string> grader = commands.of("/" + e.id + "/grader.cpp", object);
        r.objects.push_back(object);
        commands.of("/harness/main.cpp", object);
        r.objects.push_back(object);
        if (e.machine == "emulator")
            r.link.push_back("-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset");
        const std::filesystem::path more = std::filesystem::path(secret) / (e.id + ".cpp");
        if (!secret.empty() && std::filesystem::exists(more)) {
            r.objects.push_back((work / (e.id + ".secret.o")).string());
            grader.insert(grader.end(), {"-c", more.string(), "-o", r.objects.back()});
            mpt::check(ran(grader, output), "course: ", more.string(),
                       " does not compile: ", first_error(output));
        }
        list.push_back(std::move(r));
    }

    for (submission& s : all) s.attempts.resize(list.size());
    std::atomic<std::size_t> next = 0;
    std::mutex told;
    std::size_t done = 0;
    std::vector<std::thread> workers;
    const std::size_t tasks = all.size() * list.size();
    for (int j = 0; j < jobs; ++j)
        workers.emplace_back([&] {
            for (std::size_t k; (k = next++) < tasks;) {
                submission& s = all[k / list.size()];
                const ready& r = list[k % list.size()];
                std::filesystem::path answer =
                    from / s.student / "my" / r.exercise->id / "answer.cpp";
                if (!std::filesystem::exists(answer))
                    answer = from / s.student / r.exercise->id / "answer.cpp";
                try {
                    s.attempts[k % list.size()] = grade_one(r, answer, s.student, work, seed);
                } catch (const std::exception& e) {
                    attempt& a = s.attempts[k % list.size()];
                    a.exercise = r.exercise, a.seed = seed, a.compile_error = e.what();
                }
                const std::lock_guard hold(told);
                std::fprintf(stderr, "[%zu/%zu] %s %s: %d\n", ++done, tasks, s.student.c_str(),
                             r.exercise->id.c_str(), s.attempts[k % list.size()].score);
            }
        });
    for (std::thread& w : workers) w.join();
    return all;
}

/// student, sum, points there were, and each exercise.
inline std::string as_csv(const std::vector<submission>& all,
                          const std::vector<exercise_info>& list) {
    const auto cell = [](const std::string& s) {
        if (s.find_first_of(",\"\n") == std::string::npos) return s;
        std::string quoted = "\"";
        for (const char c : s) quoted += c == '"' ? "\"\"" : std::string(1, c);
        return quoted + '"';
    };
    std::string text = "student,score,max_score";
    for (const exercise_info& e : list) text += "," + e.id;
    text += '\n';
    for (const submission& s : all) {
        int most = 0;
        for (const attempt& a : s.attempts) most += a.most();
        text += mpt::join(cell(s.student), ',', s.score(), ',', most);
        for (const attempt& a : s.attempts) text += mpt::join(',', a.score);
        text += '\n';
    }
    return text;
}
