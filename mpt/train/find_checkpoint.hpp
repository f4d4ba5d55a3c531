// SPDX-License-Identifier: MIT
/// @file find_checkpoint.hpp
/// The newest checkpoint of a folder, read and checked.                    tier 5, needs:
/// base/error.hpp base/file.hpp train/manifest.hpp
///
/// Idea     What a crash left unfinished never got a checkpoint's name, and is passed over. What
///          was complete and no longer is, is named, with what was found, what was expected and the
///          newest one that is whole: steps are not thrown away without a word.
/// Costs    time: every file is read once, at a table look-up a byte
/// Breaks   a checkpoint that is renamed by hand: its folder's name is how the newest is told, so
///          one whose manifest is of another step is refused
/// Source   SQLite, sqlite.org/testing.html (crash and I/O error testing)
/// See      checkpoint.hpp (writing, and the order of it), tests/train/checkpoint_test.cpp
#pragma once
#include "mpt/base/error.hpp"     // check, error, join
#include "mpt/base/file.hpp"      // input_file
#include "mpt/train/manifest.hpp" // manifest: parse, verify_file

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace mpt {

/// A checkpoint that was found whole: every file there, of the right size, with the right sum.
struct checkpoint {
    std::string folder;
    manifest list;
    std::string path(const std::string& name) const { return folder + '/' + name + ".safetensors"; }
};

// step-00000120, and step-00000120-2 for a second one of that step. False for other names.
inline bool step_of(std::string_view name, std::pair<std::uint64_t, std::uint64_t>& number) {
    const auto take = [&](std::string_view before, std::uint64_t& n) {
        if (!name.starts_with(before)) return false;
        name.remove_prefix(before.size());
        const auto [at, fault] = std::from_chars(name.data(), name.data() + name.size(), n);
        name.remove_prefix(std::size_t(at - name.data()));
        return fault == std::errc();
    };
    number.second = 1;
    return take("step-", number.first) && (name.empty() || take("-", number.second)) &&
           name.empty();
}
inline std::string step_name(std::uint64_t step, std::uint64_t which = 1) {
    const std::string digits = std::to_string(step);
    return "step-" + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits +
           (which > 1 ? '-' + std::to_string(which) : "");
}

/// Names of the complete checkpoints in `dir`, newest first; none where there is no such folder.
inline std::vector<std::string> checkpoints_in(const std::string& dir) {
    std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, std::string>> found;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(dir, none)) {
        std::pair<std::uint64_t, std::uint64_t> number;
        const std::string name = entry.path().filename().string();
        if (step_of(name, number)) found.push_back({number, name});
    }
    std::sort(found.rbegin(), found.rend());
    std::vector<std::string> names;
    for (auto& [number, name] : found) names.push_back(std::move(name));
    return names;
}

inline manifest read_manifest(const std::string& folder) {
    const input_file file("checkpoint", folder + "/manifest.json");
    check(file.size() <= 100'000'000, file.name(), ": has ", file.size(),
          " bytes, wanted at most 100000000; it is no manifest");
    std::string text(std::size_t(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return parse_manifest(text, file.name());
}

/// The checkpoint in `folder`. Reads every file once; throws one line that names the first that is
/// missing, of another size or changed, with what was found and what was expected.
inline checkpoint open_checkpoint(const std::string& folder) {
    checkpoint c{folder, read_manifest(folder)};
    const std::string name = folder.substr(folder.find_last_of('/') + 1);
    std::pair<std::uint64_t, std::uint64_t> named;
    check(!step_of(name, named) || named.first == c.list.step, "checkpoint ", folder,
          "/manifest.json: is of step ", c.list.step, ", its folder is called ", name,
          "; it was renamed or exchanged");
    for (const manifest_file& f : c.list.files) verify_file(folder + '/' + f.name, f);
    return c;
}

/// What to do after a failure: the newest checkpoint of `dir` that is whole.
inline std::string newest_whole(const std::string& dir) {
    for (const std::string& name : checkpoints_in(dir)) try {
            open_checkpoint(dir + '/' + name);
            return "the newest checkpoint that is whole is " + dir + '/' + name;
        } catch (const error&) {
        }
    return "no checkpoint in " + dir + " is whole";
}

/// What `latest` holds where it names a checkpoint.
inline std::string pointer_text(const std::string& name, std::uint32_t crc) {
    return name + ' ' + hex8(crc) + '\n';
}
/// What it holds, 200 bytes at most; nothing where there is none.
inline std::string read_pointer(const std::string& dir) {
    std::error_code none;
    if (!std::filesystem::exists(dir + "/latest", none)) return {};
    const input_file file("checkpoint", dir + "/latest");
    std::string text(std::size_t(std::min<std::uint64_t>(file.size(), 200)), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

/// Throws unless `latest`, where there is one, names a checkpoint that is there and unchanged.
inline void check_latest(const std::string& dir) {
    std::error_code none;
    const std::string path = dir + "/latest", text = read_pointer(dir);
    if (!std::filesystem::exists(path, none)) return; // a crash came before the first
    const std::string name = text.substr(0, text.find(' '));
    const std::vector<std::string> there = checkpoints_in(dir);
    check(std::find(there.begin(), there.end(), name) != there.end(), "checkpoint ", path,
          ": names ", json::quote(name),
          ", which is not in this folder; it was removed, or a byte was changed");
    const std::string want = pointer_text(name, read_manifest(dir + '/' + name).crc);
    check(text == want, "checkpoint ", path, ": holds ", json::quote(text), ", wanted ",
          json::quote(want), "; a byte was changed, or ", name, " was exchanged");
}

/// The newest checkpoint in `dir`. What a crash left unfinished is passed over: it never had its
/// name. One that was complete and no longer is, is an error that says which older one is whole:
/// steps are not thrown away without a word.
inline checkpoint newest_checkpoint(const std::string& dir) {
    const std::vector<std::string> names = checkpoints_in(dir);
    check(!names.empty(), "checkpoint ", dir, ": none is there; wanted a folder with step-N in it");
    try {
        check_latest(dir);
        return open_checkpoint(dir + '/' + names[0]);
    } catch (const error& e) {
        throw error(join(e.what(), "; ", newest_whole(dir)));
    }
}

} // namespace mpt
