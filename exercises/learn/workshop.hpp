// SPDX-License-Identifier: MIT
// workshop.hpp -- the learner's own folder: answers, what was solved, who it is.
//
//   my/ID/answer.cpp       the template, then the answer
//   my/state.json          student, and for each exercise points and the answer they were given for
//   my/old/ID-N.cpp        what `reset` has put aside
// git ignores it. Nothing is ever deleted from it.
#pragma once
#include "compose.hpp"
#include "exercise.hpp"

#include "mpt/base/crc32c.hpp"     // crc32c
#include "mpt/base/disk.hpp"       // real_disk
#include "mpt/base/file.hpp"       // output_file
#include "mpt/base/json_write.hpp" // quote

#include <filesystem>
#include <map>
#include <string>

struct progress_of {
    int score = 0;
    std::string answer;   // CRC-32C of the answer it was given for
    bool spoiled = false; // the solution was looked at before it was solved
};

class workshop {
public:
    explicit workshop(std::filesystem::path folder) : folder_(std::move(folder)) {
        const auto path = folder_ / "state.json";
        if (!std::filesystem::exists(path)) return;
        const mpt::json::value all = mpt::json::parse(whole_file(path), path.string());
        if (const auto* s = all.find("student")) student = s->text;
        if (const auto* list = all.find("exercises"))
            for (const auto& [id, e] : list->members) {
                progress_of& p = done[id];
                std::int64_t score = 0;
                if (const auto* v = e.find("score"); v && v->to(score)) p.score = int(score);
                if (const auto* v = e.find("answer")) p.answer = v->text;
                if (const auto* v = e.find("spoiled")) p.spoiled = v->boolean;
            }
    }

    std::string student; // parameters go with it
    std::map<std::string, progress_of> done;

    const std::filesystem::path& folder() const { return folder_; }
    std::filesystem::path answer(const exercise_info& e) const {
        return folder_ / e.id / "answer.cpp";
    }
    bool begun(const exercise_info& e) const { return std::filesystem::exists(answer(e)); }
    std::string sum(const exercise_info& e) const {
        const std::string text = whole_file(answer(e));
        return mpt::join(std::hex, mpt::crc32c(std::as_bytes(std::span(text))));
    }

    /// todo, partial, done, or stale: the answer has changed since its points were given.
    std::string status(const exercise_info& e) const {
        const auto found = done.find(e.id);
        if (found == done.end() || !begun(e)) return "todo";
        if (found->second.answer != sum(e)) return "stale";
        return found->second.score == e.points ? "done"
               : found->second.score > 0       ? "partial"
                                               : "todo";
    }

    /// The template of each exercise that has none yet. Returns how many were written.
    int begin(const std::vector<exercise_info>& all) {
        int written = 0;
        for (const exercise_info& e : all)
            if (!begun(e)) write_template(e), ++written;
        return written;
    }
    /// The template again; the answer is kept under the name returned.
    std::filesystem::path reset(const exercise_info& e) {
        std::filesystem::path old;
        if (begun(e)) {
            std::filesystem::create_directories(folder_ / "old");
            for (int n = 1; old.empty() || std::filesystem::exists(old); ++n)
                old = folder_ / "old" / mpt::join(e.id, '-', n, ".cpp");
            std::filesystem::rename(answer(e), old);
        }
        write_template(e);
        return old;
    }

    void save() const {
        std::filesystem::create_directories(folder_);
        std::string text = "{\"student\":" + mpt::json::quote(student) + ",\n \"exercises\":{";
        const char* comma = "\n";
        for (const auto& [id, p] : done) {
            text += mpt::join(comma, "  ", mpt::json::quote(id), ":{\"score\":", p.score,
                              ",\"answer\":", mpt::json::quote(p.answer),
                              p.spoiled ? ",\"spoiled\":true" : "", "}");
            comma = ",\n";
        }
        write(folder_ / "state.json", text + "\n }\n}\n");
    }

private:
    void write_template(const exercise_info& e) const {
        const auto from = e.file("solution.cpp"),
                   ready = e.file("template.cpp"); // a student's copy
        std::filesystem::create_directories(folder_ / e.id);
        write(answer(e), std::filesystem::exists(ready) ? whole_file(ready)
                                                        : compose(whole_file(from), from.string()));
    }
    static void write(const std::filesystem::path& path, const std::string& text) {
        mpt::output_file file("learn", path.string(), mpt::real_disk); // whole, or not at all
        file.write(text);
        file.commit();
    }

    std::filesystem::path folder_;
};
