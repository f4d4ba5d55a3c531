// SPDX-License-Identifier: MIT
// run_folder.hpp -- the folder of a run: who may use it, and its rows of numbers.
//
//   DIR/checkpoints        what --resume and `sample` need: the two newest, and which is the latest
//   DIR/metrics.jsonl      a row an attempted step
//   DIR/validation.jsonl   a row a validation
//   DIR/loss.svg           both as a picture
#pragma once
#include "mpt/base/error.hpp"            // check, error
#include "mpt/base/file.hpp"             // output_file
#include "mpt/base/json.hpp"             // parse
#include "mpt/base/json_write.hpp"       // number
#include "mpt/train/find_checkpoint.hpp" // newest_checkpoint, open_checkpoint, checkpoints_in

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

/// A fresh folder runs/001, runs/002, ... that no other process has taken.
inline std::string fresh_run() {
    std::error_code failed;
    fs::create_directories("runs", failed);
    for (int n = 1; n < 1000; ++n) {
        char name[16];
        std::snprintf(name, sizeof name, "runs/%03d", n);
        if (fs::create_directory(name, failed)) return name; // false where it exists
        mpt::check(!failed, name, ": cannot be created (", failed.message(),
                   "); give a folder that can be written with --out");
    }
    throw mpt::error("runs/: 001 to 999 are taken; give a folder with --out");
}

inline std::string checkpoints_of(const std::string& dir) { return dir + "/checkpoints"; }

/// The newest folder of runs/ that holds a checkpoint.
inline std::string latest_run() {
    std::string latest;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("runs", none))
        if (!mpt::checkpoints_in(checkpoints_of(entry.path().string())).empty())
            latest = std::max(latest, entry.path().string());
    mpt::check(!latest.empty(),
               "--resume: no checkpoint under runs/; name the run's folder with --out");
    return latest;
}

/// Make `dir` the folder of a new run: created where it is missing, refused where it is occupied.
inline void claim(const std::string& dir) {
    std::error_code failed;
    fs::create_directories(dir, failed);
    mpt::check(fs::is_directory(dir), "--out ", dir, ": cannot be created (",
               failed ? failed.message() : "it is a file", "); give a folder that can be written");
    mpt::check(fs::is_empty(dir, failed), "--out ", dir,
               ": is occupied; add --resume to go on with its run, or give an empty folder");
}

/// The checkpoint of a run's folder that is whole: the newest, or its folder's `name`; `dir` may be
/// a checkpoint's folder itself. for_resume: what an error says to do with an older one.
inline mpt::checkpoint find_checkpoint(const std::string& dir, bool for_resume = false,
                                       const std::string& name = "") {
    std::error_code none;
    if (name.empty() && fs::exists(dir + "/manifest.json", none)) return mpt::open_checkpoint(dir);
    const bool old = fs::exists(dir + "/checkpoint.safetensors", none);
    mpt::check(
        !old || fs::exists(checkpoints_of(dir), none), "checkpoint ", dir,
        "/checkpoint.safetensors: is one file, of a version before checkpoints were folders, "
        "wanted ",
        checkpoints_of(dir), "; begin the run anew, --init takes its weights");
    std::string text;
    try {
        if (name.empty()) return mpt::newest_checkpoint(checkpoints_of(dir));
        try {
            return mpt::open_checkpoint(checkpoints_of(dir) + '/' + name);
        } catch (const mpt::error& e) {
            throw mpt::error(mpt::join(e.what(), "; ", mpt::newest_whole(checkpoints_of(dir))));
        }
    } catch (const mpt::error& e) {
        text = e.what();
    }
    if (text.find("checkpoint that is whole is ") != text.npos)
        text += for_resume ? "; --from " + text.substr(text.rfind('/') + 1) + " goes on from it"
                           : "; give that folder to use it";
    throw mpt::error(text);
}

/// A file of rows, each a JSON object with "step" in front.
class row_file {
public:
    /// Rows after `last_step` are dropped, rows up to it are kept and handed to `each`.
    template <class Each>
    row_file(const std::string& path, long last_step, Each each) : path_(path) {
        std::string kept;
        std::ifstream old(path);
        for (std::string row; std::getline(old, row);) {
            if (old.eof()) break; // a row without its end: the program died while it wrote it
            const auto value = mpt::json::parse(row, path);
            const auto* step = value.find("step");
            std::int64_t number = 0;
            mpt::check(step && step->to(number), path,
                       ": a row without a step; the file was changed by hand, move it away");
            if (number > last_step) break;
            each(value);
            kept += row + '\n';
        }
        old.close();
        mpt::output_file next("rows", path); // on a full disk the old ones stay
        next.write(kept);
        next.commit();
        file_.open(path, std::ios::app);
        mpt::check(file_.good(), path, ": cannot be written; give a folder that can be");
    }

    void append(const std::string& row) {
        file_ << row << std::endl; // a row that is shown is on its way to the disk
        mpt::check(file_.good(), path_, ": cannot be written; is the disk full?");
    }

private:
    std::string path_;
    std::ofstream file_;
};
