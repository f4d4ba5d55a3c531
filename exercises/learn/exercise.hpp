// SPDX-License-Identifier: MIT
// exercise.hpp -- what exercises/ID/exercise.json says of an exercise.
#pragma once
#include "mpt/base/error.hpp" // check, join
#include "mpt/base/file.hpp"  // input_file
#include "mpt/base/json.hpp"  // parse

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

struct exercise_info {
    std::string id, title;
    std::string chapter;                       // by name: "loss_scaling"; its number may change
    int number = 0;                            // of the chapter, for the order
    std::string kind;                          // predict, fill, find, budget, account
    std::string machine;                       // cpu, emulator
    int points = 0, minutes = 0, timeout = 10; // seconds of one part
    int memory = 2048;                         // MiB that it may take
    std::vector<std::string> hides;            // headers that hold the answer
    std::vector<std::string> needs;            // exercises that come before
    std::map<std::string, std::vector<long>> parameters; // what goes with the student
    std::filesystem::path folder;
    std::string course; // the seed of a course: other numbers for the same students

    std::filesystem::path file(const std::string& name) const { return folder / name; }
};

inline std::string whole_file(const std::filesystem::path& path) {
    const mpt::input_file file("exercise", path.string());
    std::string text(std::size_t(file.size()), '\0');
    if (!text.empty()) file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

/// Names of the chapters in reading order: "05_loss_scaling" is loss_scaling, 5.
inline std::map<std::string, int> chapter_numbers(const std::filesystem::path& root) {
    std::map<std::string, int> number;
    for (const auto& entry : std::filesystem::directory_iterator(root / "chapters")) {
        const std::string name = entry.path().stem().string();
        if (name.size() > 3 && entry.path().extension() == ".cpp" && name[2] == '_')
            number[name.substr(3)] = std::stoi(name.substr(0, 2));
    }
    return number;
}

inline exercise_info read_exercise(const std::filesystem::path& folder,
                                   const std::map<std::string, int>& chapters) {
    const std::filesystem::path path = folder / "exercise.json";
    const mpt::json::value all = mpt::json::parse(whole_file(path), path.string());
    exercise_info e;
    e.folder = folder;
    std::set<std::string> known;
    const auto at = [&](const char* key) {
        known.insert(key);
        return all.find(key);
    };
    const auto word = [&](const char* key, std::string& to) {
        const auto* v = at(key);
        mpt::check(v && v->type == mpt::json::type::string, path.string(), ": ", key,
                   " is missing or no string; give one");
        to = v->text;
    };
    const auto count = [&](const char* key, int& to, bool needed) {
        const auto* v = at(key);
        std::int64_t n = to;
        mpt::check(v ? v->to(n) && n > 0 && n < 100000 : !needed, path.string(), ": ", key,
                   " is missing or no number above 0; give one");
        to = int(n);
    };
    const auto words = [&](const char* key, std::vector<std::string>& to) {
        if (const auto* v = at(key))
            for (const auto& item : v->items) to.push_back(item.text);
    };
    word("id", e.id);
    word("title", e.title);
    word("chapter", e.chapter);
    word("kind", e.kind);
    word("machine", e.machine);
    count("points", e.points, true);
    count("minutes", e.minutes, true);
    count("timeout_s", e.timeout, false);
    count("memory_mb", e.memory, false);
    words("hides", e.hides);
    words("needs", e.needs);
    if (const auto* p = at("parameters"))
        for (const auto& [name, choices] : p->members)
            for (const auto& item : choices.items) {
                std::int64_t n = 0;
                mpt::check(item.to(n), path.string(), ": parameter ", name, " has ", item.text,
                           ", wanted whole numbers");
                e.parameters[name].push_back(long(n));
            }
    for (const auto& m : all.members)
        mpt::check(known.count(m.key) > 0, path.string(), ": has ", mpt::json::quote(m.key),
                   ", which nothing reads; remove it or correct its name");
    mpt::check(e.id == folder.filename().string(), path.string(), ": the id is ", e.id,
               ", the folder ", folder.filename().string(), "; give both one name");
    const auto found = chapters.find(e.chapter);
    mpt::check(found != chapters.end(), path.string(), ": chapter ", e.chapter,
               " does not exist; take the name of a file in chapters/ without its number");
    e.number = found->second;
    const std::set<std::string> kinds{"predict", "fill", "find", "budget", "account"};
    mpt::check(kinds.count(e.kind) > 0, path.string(), ": kind ", e.kind,
               ", wanted predict, fill, find, budget or account");
    mpt::check(e.machine == "cpu" || e.machine == "emulator", path.string(), ": machine ",
               e.machine, ", wanted cpu or emulator");
    return e;
}

/// All, in the order of the chapters; those of one chapter by their points, then by name.
inline std::vector<exercise_info> read_exercises(const std::filesystem::path& root,
                                                 const std::filesystem::path& exercises) {
    const auto chapters = chapter_numbers(root);
    std::vector<exercise_info> all;
    for (const auto& entry : std::filesystem::directory_iterator(exercises))
        if (std::filesystem::exists(entry.path() / "exercise.json"))
            all.push_back(read_exercise(entry.path(), chapters));
    const std::filesystem::path course = exercises / "course.json";
    if (std::filesystem::exists(course))
        for (exercise_info& e : all)
            if (const auto* seed =
                    mpt::json::parse(whole_file(course), course.string()).find("seed"))
                e.course = seed->text;
    std::sort(all.begin(), all.end(), [](const exercise_info& a, const exercise_info& b) {
        return std::tie(a.number, a.points, a.id) < std::tie(b.number, b.points, b.id);
    });
    return all;
}

/// The student's own value of each parameter: the same for the same name, whatever the order.
inline std::map<std::string, long> parameters_of(const exercise_info& e,
                                                 const std::string& student) {
    std::map<std::string, long> mine;
    for (const auto& [name, choices] : e.parameters) {
        std::uint64_t h = 14695981039346656037u; // FNV-1a
        for (const unsigned char c : e.course + student + '/' + e.id + '/' + name)
            h = (h ^ c) * 1099511628211u;
        mine[name] = choices[std::size_t(h >> 32) % choices.size()];
    }
    return mine;
}
