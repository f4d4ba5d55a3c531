// SPDX-License-Identifier: MIT
// run_folder.hpp -- the folder of a run: who may use it, and its rows of numbers.
//
//   DIR/checkpoint.safetensors   what --resume and `sample` need (mpt/train/checkpoint.hpp)
//   DIR/metrics.jsonl            a row an attempted step
//   DIR/validation.jsonl         a row a validation
//   DIR/loss.svg                 both as a picture
#pragma once
#include "mpt/base/error.hpp"       // check, error
#include "mpt/base/json.hpp"        // parse
#include "mpt/base/json_write.hpp"  // number
#include "mpt/train/checkpoint.hpp" // checkpoint_path, checkpoint_scalars

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
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

/// The newest folder of runs/ that holds a checkpoint.
inline std::string latest_run() {
    std::string latest;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("runs", none))
        if (fs::exists(mpt::checkpoint_path(entry.path().string())))
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

/// The options that the run in `dir` was begun with, among the other words of its checkpoint.
inline std::map<std::string, std::string> saved_options(const std::string& dir) {
    return mpt::checkpoint_scalars(dir);
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
        const std::string next = path + ".new";
        std::ofstream(next) << kept;
        std::error_code failed;
        fs::rename(next, path, failed);
        file_.open(path, std::ios::app);
        mpt::check(!failed && file_.good(), path, ": cannot be written; give a folder that can be");
    }

    void append(const std::string& row) {
        file_ << row << std::endl; // a row that is shown is on its way to the disk
        mpt::check(file_.good(), path_, ": cannot be written; is the disk full?");
    }

private:
    std::string path_;
    std::ofstream file_;
};
