// SPDX-License-Identifier: MIT
// course -- for those who teach: a repository for students, grades of many, a new exercise.
// `./run course` starts it; docs/teaching.md says how a term may go.
#include "commands.hpp"
#include "prove.hpp"
#include "screen.hpp"
#include "submissions.hpp"

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path root = MPT_ROOT, build = MPT_BUILD;

std::vector<std::string> words_of(const std::string& list) {
    std::vector<std::string> words;
    std::istringstream in(list);
    for (std::string w; std::getline(in, w, ',');) words.push_back(w);
    return words;
}

std::vector<exercise_info> chosen(const std::string& list) {
    const std::vector<exercise_info> all = read_exercises(root, root / "exercises");
    if (list.empty()) return all;
    std::vector<exercise_info> some;
    for (const std::string& id : words_of(list)) {
        const auto e =
            std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.id == id; });
        mpt::check(e != all.end(), "course: no exercise is called ", id,
                   "; './run learn list' has all");
        some.push_back(*e);
    }
    return some;
}

void write(const fs::path& path, const std::string& text) {
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    mpt::output_file file("course", path.string());
    file.write(text);
    file.commit();
}

/// What students build and solve: the library, the chosen exercises as templates, their graders.
/// Solutions, mutants, and the reasons in the hints stay here.
void export_to(const fs::path& to, const std::vector<exercise_info>& list,
               const std::string& seed) {
    mpt::check(!fs::exists(to) || fs::is_empty(to), "course: ", to.string(),
               " exists and is not empty; choose a new folder");
    const auto copy = [&](const char* name) {
        fs::create_directories((to / name).parent_path());
        fs::copy(root / name, to / name, fs::copy_options::recursive);
    };
    for (const char* name :
         {"mpt", "cmake", "CMakeLists.txt", "run", "LICENSE", ".gitignore", "exercises/harness",
          "exercises/learn", "exercises/CMakeLists.txt", "exercises/README.md"})
        copy(name);
    // The order of the exercises comes from the chapters' names; their programs stay here, too.
    for (const auto& [name, number] : chapter_numbers(root))
        write(to / "chapters" / (mpt::join(number < 10 ? "0" : "", number, '_', name) + ".cpp"),
              "");
    if (!seed.empty())
        write(to / "exercises" / "course.json", "{\"seed\":" + mpt::json::quote(seed) + "}\n");
    for (const exercise_info& e : list) {
        const fs::path folder = to / "exercises" / e.id;
        for (const char* name : {"exercise.json", "exercise.hpp", "grader.cpp"})
            write(folder / name, whole_file(e.file(name)));
        const fs::path solution = e.file("solution.cpp");
        write(folder / "template.cpp", compose(whole_file(solution), solution.string()));
        const std::string hints = whole_file(e.file("hints.md"));
        write(folder / "hints.md", hints.substr(0, hints.find("## Solution\n")));
    }
}

/// A new exercise that already passes `learn prove`: replace it bit by bit.
void begin_exercise(const std::string& id, const std::string& chapter, const std::string& kind) {
    const fs::path folder = root / "exercises" / id;
    mpt::check(!fs::exists(folder), "course: ", folder.string(), " exists; choose another id");
    for (const char c : id)
        mpt::check((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_', "course: the id ",
                   id, "; wanted small letters, digits and _");
    mpt::check(chapter_numbers(root).count(chapter) > 0, "course: no chapter is called ", chapter,
               "; './run chapter' lists them");
    const std::string licence = "// SPDX-License-Identifier: MIT\n";
    write(folder / "exercise.json",
          "{\n  \"id\": \"" + id +
              "\",\n  \"title\": \"Say what it is about\",\n  \"chapter\": \"" + chapter +
              "\",\n  \"kind\": \"" + kind +
              "\",\n  \"machine\": \"cpu\",\n  \"points\": 3,\n  \"minutes\": 10\n}\n");
    write(folder / "exercise.hpp",
          licence + "// What answer.cpp defines and the grader calls.\n#pragma once\n"
                    "#include \"exercises/harness/todo.hpp\" // todo\n\n"
                    "/// Twice x.\nint twice(int x);\n");
    write(folder / "solution.cpp",
          licence + "// The statement.\n#include \"exercise.hpp\"\n\n"
                    "int twice(int x) {\n    //< twice: one line\n    return 2 * x;\n"
                    "    //> throw exercise::todo(\"twice\");\n}\n");
    write(folder / "grader.cpp",
          licence +
              "#include \"exercise.hpp\"\n\n#include \"exercises/harness/grade.hpp\"\n\n"
              "using namespace grade;\n\nPART(\"any number\", 3) {\n"
              "    const int x = any().between(3, 1000);\n"
              "    equals(mpt::join(\"twice \", x), twice(x), 2 * x, \"why it is so\");\n}\n");
    write(folder / "mutants/square.cpp",
          licence + "// mutant: squares\n// fails: any number\n//< twice\n    return x * x;\n");
    write(folder / "mutants/knows_two.cpp",
          licence + "// mutant: knows one answer\n// fails: any number\n//< twice\n    return x == "
                    "2 ? 4 : 0;\n");
    write(folder / "hints.md",
          "## Hint 1\n\nOne.\n\n## Hint 2\n\nTwo.\n\n## Hint 3\n\nThree.\n\n## Solution\n\nWhy.\n");
    std::fprintf(stderr,
                 "%s is there and passes './run learn prove %s'; exercises/README.md says what its "
                 "files hold\n",
                 folder.string().c_str(), id.c_str());
}

int run(int count, char** argument) {
    CLI::App app{"For those who teach: exercises without solutions, grades of many, a new exercise",
                 "./run course"};
    app.require_subcommand(1);
    std::string exercises, seed, to, from, out, details, secret, id, chapter, kind = "fill";
    int jobs = int(std::thread::hardware_concurrency()), status = 0;

    auto* give = app.add_subcommand("export", "a repository for students, without solutions");
    give->add_option("--exercises", exercises, "ids, with commas between; without it all");
    give->add_option("--seed", seed, "another one, other numbers for the same students");
    give->add_option("--to", to, "a new folder")->required();
    give->final_callback([&] { export_to(to, chosen(exercises), seed); });

    auto* take = app.add_subcommand("grade", "test the answers of many: a CSV line for each");
    take->add_option("DIR", from, "a folder a student, in it my/ID/answer.cpp or ID/answer.cpp")
        ->required();
    take->add_option("--exercises", exercises, "ids, with commas between; without it all");
    take->add_option("--jobs", jobs, "answers at one time")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    take->add_option("--seed", seed,
                     "of the numbers to try, the same for all; without it a new one");
    take->add_option("--secret", secret,
                     "a folder with ID.cpp: more PARTs, which students have not seen");
    take->add_option("--out", out, "the CSV; without it stdout");
    take->add_option("--details", details, "a folder for what each was told, NAME.json");
    take->final_callback([&] {
        if (seed.empty()) seed = fresh_seed();
        seed_of(seed);
        const std::vector<exercise_info> list = chosen(exercises);
        const std::vector<submission> all =
            grade_submissions(from, list, build, secret, seed, jobs);
        const std::string text = as_csv(all, list);
        if (out.empty())
            std::fwrite(text.data(), 1, text.size(), stdout);
        else
            write(out, text);
        for (const submission& s : all)
            if (!details.empty())
                write(fs::path(details) / (s.student + ".json"), reports::json(s.attempts));
        std::fprintf(stderr, "seed %s\n", seed.c_str());
    });

    auto* make = app.add_subcommand("new", "the files of a new exercise, which pass their proof");
    make->add_option("ID", id, "small letters, digits and _")->required();
    make->add_option("--chapter", chapter, "by name, such as loss_scaling")->required();
    make->add_option("--kind", kind, "predict, fill, find, budget or account")
        ->check(CLI::IsMember({"predict", "fill", "find", "budget", "account"}))
        ->capture_default_str();
    make->final_callback([&] { begin_exercise(id, chapter, kind); });

    if (const auto ended = parse(app, "course", count, argument)) return *ended;
    return status;
}

} // namespace

int main(int count, char** argument) {
    return guarded([&] { return run(count, argument); });
}
