// SPDX-License-Identifier: MIT
/// @file manifest.hpp
/// The list that makes a folder of files a checkpoint.                     tier 5, needs:
/// base/crc32c.hpp base/error.hpp base/file.hpp base/json.hpp
///
/// Idea     Written last: who reads it knows that every file before it was complete, and can tell
///          from sizes and check sums that each still is. Its own sum stands in its last line.
/// Formula  {"format":"mpt checkpoint", "version":1, "step":N, "files":[{"name","bytes","crc32c"}],
///          "state":{text: text}, "crc32c":"of all bytes before this comma"}
/// Costs    reading a checkpoint's files once more than loading them alone
/// Breaks   a check sum tells damage, not fraud: whoever writes the files can write the manifest
/// Source   Lightning 688, allennlp 2129, adaptdl 70 (files cut by a crash that looked whole)
/// See      checkpoint.hpp (its user), tests/train/manifest_test.cpp, tests/fuzz/
#pragma once
#include "mpt/base/crc32c.hpp" // crc32c
#include "mpt/base/error.hpp"  // check, error, join
#include "mpt/base/file.hpp"   // input_file
#include "mpt/base/json.hpp"   // parse, quote

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

inline constexpr std::uint64_t manifest_version = 1; // this program reads up to it
inline constexpr const char* manifest_format = "mpt checkpoint";

/// A data file, beside the manifest.
struct manifest_file {
    std::string name;        // "master.safetensors"
    std::uint64_t bytes = 0; // its size
    std::uint32_t crc = 0;   // CRC-32C of all of them
};

struct manifest {
    std::uint64_t step = 0; // attempted steps: what the folder is named after
    std::vector<manifest_file> files;
    std::map<std::string, std::string> state; // everything that is no tensor
    std::uint32_t crc = 0;                    // of the manifest itself; set by reading and writing
};

/// Eight digits, as a sum is written.
inline std::string hex8(std::uint32_t x) {
    std::string digits = "00000000";
    for (std::size_t i = 8; i-- > 0; x >>= 4) digits[i] = "0123456789abcdef"[x & 15];
    return digits;
}
inline bool from_hex8(std::string_view digits, std::uint32_t& x) {
    const char* const end = digits.data() + digits.size();
    const auto [at, fault] = std::from_chars(digits.data(), end, x, 16);
    return digits.size() == 8 && fault == std::errc() && at == end && hex8(x) == digits;
}

/// Letters, digits and . _ -, and no dot in front: a name that cannot leave its folder.
inline bool plain_name(std::string_view name) {
    return !name.empty() && name.size() <= 100 && name[0] != '.' &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
           });
}

// The last line: it stays as it is in every version, so that a newer one can be told from damage.
inline std::string manifest_tail(std::uint32_t crc) {
    return ",\n\"crc32c\":\"" + hex8(crc) + "\"}\n";
}

/// The text of a manifest; sets m.crc.
inline std::string write_manifest(manifest& m) {
    std::string text = join("{\"format\":", json::quote(manifest_format), ",\n\"version\":",
                            manifest_version, ",\n\"step\":", m.step, ",\n\"files\":[");
    for (const manifest_file& f : m.files)
        text += join(&f == &m.files[0] ? "\n" : ",\n", "{\"name\":", json::quote(f.name),
                     ",\"bytes\":", f.bytes, ",\"crc32c\":\"", hex8(f.crc), "\"}");
    text += "],\n\"state\":{";
    const char* separator = "\n";
    for (const auto& [key, value] : m.state) {
        text += separator + json::quote(key) + ':' + json::quote(value);
        separator = ",\n";
    }
    text += '}';
    m.crc = crc32c(std::as_bytes(std::span(text)));
    return text + manifest_tail(m.crc);
}

/// Read back. `name`: what errors begin with. Every byte is covered: by the sum, or by being a
/// fixed part of the last line.
inline manifest parse_manifest(std::string_view text, std::string_view name) {
    const std::size_t tail = manifest_tail(0).size();
    manifest m;
    check(text.size() > tail, name, ": has ", text.size(), " bytes, wanted more than ", tail,
          "; it was cut short");
    m.crc = crc32c(std::as_bytes(std::span(text.substr(0, text.size() - tail))));
    check(text.substr(text.size() - tail) == manifest_tail(m.crc), name, ": ends in ",
          json::quote(text.substr(text.size() - tail)), ", wanted ",
          json::quote(manifest_tail(m.crc)), "; it was cut short or a byte was changed");

    const json::value all = json::parse(text, name);
    const auto field = [&](const json::value& of, const char* key, json::type type) -> auto& {
        const json::value* const v = of.find(key);
        check(v && v->type == type, name, ": wanted ", json::quote(key), ", ",
              json::to_string(type), ", found ", v ? json::to_string(v->type) : "nothing",
              "; it is of another program");
        return *v;
    };
    const auto number = [&](const json::value& of, const char* key) {
        std::uint64_t n = 0;
        check(field(of, key, json::type::number).to(n), name, ": ", json::quote(key),
              " is no whole number from 0 to 2^64-1; it is of another program");
        return n;
    };
    const std::string& format = field(all, "format", json::type::string).text;
    check(format == manifest_format, name, ": its format is ", json::quote(format.substr(0, 60)),
          ", wanted ", json::quote(manifest_format), "; it is of another program");
    const std::uint64_t version = number(all, "version");
    check(version >= 1 && version <= manifest_version, name, ": is of version ", version,
          ", this program reads up to ", manifest_version, "; use the newer program that wrote it");
    m.step = number(all, "step");
    for (const json::value& f : field(all, "files", json::type::array).items) {
        manifest_file file{field(f, "name", json::type::string).text, number(f, "bytes"), 0};
        check(plain_name(file.name), name, ": names a file ", json::quote(file.name.substr(0, 60)),
              ", wanted letters, digits, dots and dashes; it is of another program");
        check(from_hex8(field(f, "crc32c", json::type::string).text, file.crc), name,
              ": the crc32c of ", file.name, " is not 8 hex digits; it is of another program");
        m.files.push_back(file);
    }
    for (const auto& [key, value] : field(all, "state", json::type::object).members) {
        check(value.type == json::type::string, name, ": state ", json::quote(key), " is ",
              json::to_string(value.type), ", wanted a string; it is of another program");
        m.state[key] = value.text;
    }
    return m;
}

/// Throws unless the file is what the manifest says: there, of that size, and unchanged.
inline void verify_file(const std::string& path, const manifest_file& want) {
    const input_file file("checkpoint", path);
    check(file.size() == want.bytes, file.name(), ": has ", file.size(),
          " bytes, its manifest says ", want.bytes, "; it was cut short or exchanged");
    std::vector<std::byte> part(std::size_t(std::min<std::uint64_t>(want.bytes, 1 << 20)));
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < want.bytes; at += part.size()) {
        part.resize(std::size_t(std::min<std::uint64_t>(part.size(), want.bytes - at)));
        file.read(at, part);
        crc = crc32c(part, crc);
    }
    check(crc == want.crc, file.name(), ": its CRC-32C is ", hex8(crc), ", its manifest says ",
          hex8(want.crc), "; its bytes were changed");
}

} // namespace mpt
