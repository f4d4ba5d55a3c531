// SPDX-License-Identifier: MIT
/// @file checkpoint.hpp
/// Saved so that no crash, full disk or power cut can lose the run.         tier 5, needs:
/// base/disk.hpp base/file.hpp train/find_checkpoint.hpp train/safetensors.hpp
///
/// Idea     A checkpoint is a folder that is built under another name. Each file is flushed before
///          the manifest that vouches for it is written, all of them before the folder gets its
///          name, and the old checkpoint goes only when the new one is on the disk. At every moment
///          one whole checkpoint exists, and its name says so.
/// Formula  DIR/step-00000120/{*.safetensors, manifest.json}   whole
///          DIR/step-00000120.tmp/                             being written, or left by a crash
///          DIR/latest                                         "step-00000120 CRC of its manifest"
/// Costs    disk: keep + 1 checkpoints.  time: an fsync a file, five of folders
/// Breaks   a disk that says it flushed and did not
/// Source   Pillai et al. 2014, All File Systems Are Not Created Equal, OSDI (what a file system
///          may reorder); fsync(2), rename(2)
/// See      find_checkpoint.hpp, chapters/12_saving.cpp, tests/train/checkpoint_failures_test.cpp
#pragma once
#include "mpt/base/disk.hpp"             // disk, real_disk, flush_folder
#include "mpt/base/file.hpp"             // new_file, output_file
#include "mpt/train/find_checkpoint.hpp" // step_name, checkpoints_in, newest_whole; manifest
#include "mpt/train/safetensors.hpp"     // source, write_to

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace mpt {

/// One data file to be saved; the tensors' bytes are read while save_checkpoint runs.
struct checkpoint_file {
    std::string name; // "master": becomes master.safetensors
    std::vector<safetensors::source> tensors;
};

// What a data file is written through: it grows, and so does its sum.
struct summed_file {
    new_file file;
    std::uint32_t crc = 0;
    void write(std::span<const std::byte> from) {
        file.write(from);
        crc = crc32c(from, crc);
    }
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
};

// A folder and the files in it; true when it is gone. Of a symbolic link only the link goes: what
// it leads to is somebody else's.
inline bool remove_folder(const disk& d, const std::string& folder) {
    std::error_code none;
    if (std::filesystem::is_symlink(folder, none)) return d.unlink(folder.c_str()) == 0;
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none))
        files.push_back(entry.path().string());
    for (const std::string& f : files) d.unlink(f.c_str());
    return d.rmdir(folder.c_str()) == 0;
}

// `latest` names the checkpoint `name`, whose manifest has the sum `crc`.
inline void point_to(const std::string& dir, const std::string& name, std::uint32_t crc,
                     const disk& d) {
    output_file latest("checkpoint", dir + "/latest", d);
    latest.write(pointer_text(name, crc));
    latest.commit();
}

// Of the checkpoints in `dir`, `name` and those before it stay, `keep` in all.
inline void remove_others(const std::string& dir, const std::string& name, std::size_t keep,
                          const disk& d) {
    std::size_t kept = 0;
    std::pair<std::uint64_t, std::uint64_t> mine, other;
    step_of(name, mine);
    for (const std::string& old : checkpoints_in(dir)) {
        step_of(old, other);
        if (other <= mine && kept++ < keep) continue;
        const std::string folder = dir + '/' + old, gone = folder + ".tmp";
        check(d.rename(folder.c_str(), gone.c_str()) == 0 && remove_folder(d, gone), "checkpoint ",
              folder, ": is an older one and cannot be removed (", std::strerror(errno),
              "); make its folder one that can be written");
    }
}

/// Save the step's files and state as the newest checkpoint of `dir`, which is made where it is
/// missing, and keep the `keep` newest. Returns its folder. When that fails (disk full, no right to
/// write) an error says so; every checkpoint that was whole before is whole then.
inline std::string save_checkpoint(const std::string& dir, std::uint64_t step,
                                   std::vector<checkpoint_file> files,
                                   std::map<std::string, std::string> state, std::size_t keep = 2,
                                   const disk& d = real_disk) {
    const auto must = [](bool done, const std::string& path, const char* what) {
        check(done, "checkpoint ", path, ": ", what, " (", std::strerror(errno),
              "); free some space or choose a folder that exists and can be written");
    };
    check(keep > 0, "checkpoint ", dir, ": keep 0, wanted 1 or more");
    for (const checkpoint_file& f : files) // else nobody could read it again
        check(plain_name(f.name + ".safetensors") &&
                  std::count_if(files.begin(), files.end(),
                                [&](const checkpoint_file& g) { return g.name == f.name; }) == 1,
              "checkpoint ", dir, ": a file called ", json::quote(f.name),
              "; wanted letters, digits, dots and dashes, each name once");
    std::string building, name;
    manifest list{step, {}, std::move(state)};
    try {
        const std::vector<std::string> there = checkpoints_in(dir);
        for (std::uint64_t which = 1; name.empty() || std::count(there.begin(), there.end(), name);)
            name = step_name(step, which++);
        std::error_code none;
        if (!std::filesystem::is_directory(dir, none))
            must(d.mkdir(dir.c_str()) == 0, dir, "cannot be made");
        for (const std::string& above : {folder_of(dir), folder_of(dir) + "/.."}) // dir's own name
            must(flush_folder(d, above), above, "cannot be flushed");
        std::pair<std::uint64_t, std::uint64_t> number;
        for (const auto& entry : std::filesystem::directory_iterator(dir, none))
            if (entry.path().extension() == ".tmp" && step_of(entry.path().stem().string(), number))
                remove_folder(d, entry.path().string());

        //! [order]
        // 1. A folder under another name.
        building = dir + '/' + name + ".tmp";
        must(d.mkdir(building.c_str()) == 0, building, "cannot be made");
        // 2. Each data file, flushed.
        for (checkpoint_file& f : files) {
            const std::string path = building + '/' + f.name + ".safetensors";
            summed_file to{{"checkpoint " + path, path, d}};
            safetensors::write_to(to, "checkpoint " + path, std::move(f.tensors));
            to.file.finish();
            list.files.push_back({f.name + ".safetensors", to.file.size(), to.crc});
        }
        // 3. The manifest that vouches for them, and all their names.
        const std::string path = building + "/manifest.json";
        new_file to("checkpoint " + path, path, d);
        to.write(write_manifest(list));
        to.finish();
        must(flush_folder(d, building), building, "cannot be flushed");
        // 4. The name that makes it a checkpoint, flushed: from here on it is the newest.
        const std::string whole = dir + '/' + name;
        must(d.rename(building.c_str(), whole.c_str()) == 0, whole, "cannot get its name");
        building.clear();
        must(flush_folder(d, dir), dir, "cannot be flushed");
        // 5. The pointer to it, itself written aside, flushed and renamed.
        point_to(dir, name, list.crc, d);
        //! [order]
    } catch (const error& e) {
        if (!building.empty()) remove_folder(d, building);
        throw error(join(e.what(), "; ", newest_whole(dir)));
    }
    // 6. Only now the ones before it; and those of later steps, whose future this run has left.
    remove_others(dir, name, keep, d);
    return dir + '/' + name;
}

/// What a crash after the newest checkpoint got its name left undone: the pointer to it, and those
/// before it. A run that resumes at its end saves no more, so nobody else would do it. Writes
/// nothing where nothing is missing.
inline void finish_checkpoint(const std::string& dir, const checkpoint& newest,
                              std::size_t keep = 2, const disk& d = real_disk) {
    const std::string name = newest.folder.substr(newest.folder.find_last_of('/') + 1);
    if (read_pointer(dir) != pointer_text(name, newest.list.crc))
        point_to(dir, name, newest.list.crc, d);
    remove_others(dir, name, keep, d);
}

} // namespace mpt
