// SPDX-License-Identifier: MIT
/// @file safetensors.hpp
/// Named arrays in one file that other tools read too.                     tier 5, needs:
/// base/error.hpp base/file.hpp base/json.hpp base/json_write.hpp train/tensor_types.hpp
///
/// Idea     A JSON header says where each tensor lies, the bytes follow. The reader takes nothing
///          on trust: tensors must cover the data exactly, without hole, overlap or rest.
/// Formula  file = N (8 bytes) | N bytes of JSON | data
///          name -> {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}
/// Costs    memory: the header, and about 200 bytes a tensor; what it says is checked before
///          anything of that size is allocated. Tensors go between spans and the file directly
/// Breaks   values are not checked; bytes are little-endian, as is every machine this compiles on
/// Source   github.com/huggingface/safetensors: README (format), tensor.rs (order of the checks)
/// See      checkpoint.hpp (a user), tests/train/safetensors_test.cpp, tests/fuzz/
#pragma once
#include "mpt/base/error.hpp"         // check, join, error
#include "mpt/base/file.hpp"          // input_file, output_file
#include "mpt/base/json.hpp"          // parse_members
#include "mpt/base/json_write.hpp"    // quote, utf8_prefix
#include "mpt/train/tensor_types.hpp" // dtypes, shape, bytes_of

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace mpt::safetensors {

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

/// A tensor of a file.
struct tensor {
    std::string name;
    std::string dtype; // a name in `dtypes`
    safetensors::shape shape;
    std::uint64_t begin = 0; // bytes, from the beginning of the data
    std::uint64_t end = 0;   // the byte behind the last
    std::uint64_t bytes() const { return end - begin; }
};

using metadata = std::map<std::string, std::string>;

struct header {
    safetensors::metadata metadata;
    std::vector<tensor> tensors; // as they lie in the file
    std::uint64_t data = 0;      // where in the file their bytes begin
};

// A tensor as messages name it; a name without end is cut.
inline std::string called(const std::string& file, std::string_view name) {
    return file + ": tensor " + json::quote(name.substr(0, 200)) + (name.size() > 200 ? "..." : "");
}

inline tensor read_entry(const std::string& file, const json::member& m) {
    const std::string name = called(file, m.key);
    const json::value *type = m.value.find("dtype"), *dims = m.value.find("shape"),
                      *offsets = m.value.find("data_offsets");
    check(type && type->type == json::type::string && dims && dims->type == json::type::array &&
              offsets && offsets->type == json::type::array && offsets->items.size() == 2,
          name, " wanted {\"dtype\": string, \"shape\": array, \"data_offsets\": [begin, end]}; ",
          "write the file anew");
    check(find_dtype(type->text) < dtypes.size(), name, " has the type ",
          json::quote(type->text.substr(0, 20)),
          ", wanted F32, F16, BF16 or another known one; convert it");
    tensor t{m.key, type->text, shape(dims->items.size()), 0, 0};
    bool whole = offsets->items[0].to(t.begin) && offsets->items[1].to(t.end);
    for (std::size_t i = 0; i < t.shape.size(); ++i) whole = whole && dims->items[i].to(t.shape[i]);
    check(whole, name, " has a size or offset that is no whole number from 0 to 2^64-1; ",
          "write the file anew");
    return t;
}

/// Read and check everything but the values. The order of the checks is tensor.rs's. `file` is
/// an input_file, or has its name(), size() and read().
template <class File>
header read_header(const File& file) {
    const std::string& name = file.name();
    check(file.size() >= 8, name, ": has ", file.size(),
          " bytes, wanted at least 8; it is no safetensors file or was cut short");
    std::uint64_t length = 0;
    file.read(0, std::as_writable_bytes(std::span(&length, 1)));
    check(length <= 100'000'000, name, ": says that its header has ", length,
          " bytes, wanted at most 100000000; it is no safetensors file");
    check(length <= file.size() - 8, name, ": says that its header has ", length, " bytes, ",
          file.size() - 8, " are there; it is no safetensors file or was cut short");
    std::string text(std::size_t(length), '\0');
    file.read(8, std::as_writable_bytes(std::span(text)));
    const std::size_t good = json::utf8_prefix(text);
    check(good == text.size(), name, ": byte ", good,
          " of its header is not UTF-8; write the file anew");
    check(!text.empty() && text[0] == '{', name,
          ": its header does not begin with '{'; it is no safetensors file");

    header h;
    h.data = 8 + length;
    json::parse_members(text, name, [&](const json::member& m) {
        if (m.key != "__metadata__") {
            h.tensors.push_back(read_entry(name, m));
            return;
        }
        check(m.value.type == json::type::object, name, ": __metadata__ is ",
              json::to_string(m.value.type), ", wanted an object; write the file anew");
        for (const auto& [key, value] : m.value.members) {
            check(value.type == json::type::string, name, ": __metadata__ ",
                  json::quote(key.substr(0, 200)), " is ", json::to_string(value.type),
                  ", wanted a string; write the file anew");
            h.metadata[key] = value.text;
        }
    });

    std::sort(h.tensors.begin(), h.tensors.end(), [](const tensor& a, const tensor& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t end = 0; // of the tensor before: no holes, no overlaps
    for (const tensor& t : h.tensors) {
        const std::string who = called(name, t.name);
        check(t.begin == end && t.end >= t.begin, who, " lies at [", t.begin, ",", t.end,
              "), wanted it to begin at ", end, " and end behind that; write the file anew");
        end = t.end;
        const std::uint64_t bytes = bytes_of(who, dtypes[find_dtype(t.dtype)], t.shape);
        check(bytes == t.bytes(), who, " of shape ", to_string(t.shape), " and type ", t.dtype,
              " needs ", bytes, " bytes, its offsets give ", t.bytes(), "; write the file anew");
    }
    check(end == file.size() - h.data, name, ": its tensors need ", end, " bytes of data, ",
          file.size() - h.data, " are there; it was cut short or has a rest, get it anew");
    return h;
}

/// An open file whose header has passed all checks.
struct reader {
    explicit reader(const std::string& path, const std::string& kind = "safetensors")
        : file(kind, path), head(read_header(file)) {}

    const safetensors::metadata& metadata() const { return head.metadata; }
    const std::vector<tensor>& tensors() const { return head.tensors; }
    /// nullptr where there is none of that name. Walks: n log n with a map of your own.
    const tensor* find(std::string_view name) const {
        for (const tensor& t : head.tensors)
            if (t.name == name) return &t;
        return nullptr;
    }
    /// The bytes of one tensor. `to` has t.bytes() of them.
    void read(const tensor& t, std::span<std::byte> to) const {
        check(to.size() == t.bytes(), file.name(), ": tensor ", json::quote(t.name), " has ",
              t.bytes(), " bytes, room is given for ", to.size(), "; give exactly that");
        file.read(head.data + t.begin, to);
    }

    input_file file;
    header head;
};

/// A tensor to be written.
struct source {
    std::string name;
    std::string dtype; // a name in `dtypes`
    safetensors::shape shape;
    std::span<const std::byte> bytes;
};

/// Write `tensors`, sorted by dtype and name, so that their order here does not matter, into `to`,
/// which has output_file's two write(). Errors begin with `who`.
template <class To>
void write_to(To& to, const std::string& who, std::vector<source> tensors,
              const metadata& metadata = {}) {
    std::sort(tensors.begin(), tensors.end(), [](const source& a, const source& b) {
        const std::size_t i = find_dtype(a.dtype), j = find_dtype(b.dtype);
        return std::tie(i, a.name) < std::tie(j, b.name);
    });
    std::vector<std::string> entries;
    std::vector<std::string_view> names{"__metadata__"};
    if (!metadata.empty()) {
        std::string all;
        for (const auto& [key, value] : metadata)
            all += join(all.empty() ? "" : ",", json::quote(key), ':', json::quote(value));
        entries.push_back("\"__metadata__\":{" + all + '}');
    }
    std::uint64_t begin = 0;
    for (const source& t : tensors) {
        const std::string tensor = called(who, t.name);
        const std::size_t type = find_dtype(t.dtype);
        check(type < dtypes.size(), tensor, " has the type ", json::quote(t.dtype),
              ", wanted F32, F16, BF16 or another known one; convert it");
        check(json::utf8_prefix(t.name) == t.name.size(), tensor, " is not UTF-8; rename it");
        const std::uint64_t bytes = bytes_of(tensor, dtypes[type], t.shape);
        check(bytes == t.bytes.size(), tensor, " of shape ", to_string(t.shape), " and type ",
              t.dtype, " needs ", bytes, " bytes, ", t.bytes.size(),
              " are given; give exactly that");
        std::string dims;
        for (const std::uint64_t d : t.shape) dims += join(dims.empty() ? "" : ",", d);
        entries.push_back(join(json::quote(t.name), ":{\"dtype\":\"", t.dtype, "\",\"shape\":[",
                               dims, "],\"data_offsets\":[", begin, ',', begin + bytes, "]}"));
        begin += bytes;
        names.push_back(t.name);
    }
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
        throw error(join(who, ": the name ", json::quote(*twice),
                         " is there twice or reserved; name each tensor once"));

    std::string text = "{";
    for (const std::string& e : entries) text += (text.size() > 1 ? "," : "") + e;
    text += '}';
    text.resize((text.size() + 7) / 8 * 8, ' '); // the data begins at a multiple of 8
    const std::uint64_t length = text.size();
    check(length <= 100'000'000, who, ": its header would have ", length,
          " bytes, wanted at most 100000000; write several files");

    to.write(std::as_bytes(std::span(&length, 1)));
    to.write(text);
    for (const source& t : tensors) to.write(t.bytes);
}

/// The same into a file that appears whole or, with a thrown error, not at all; an older one then
/// stays.
inline void write(const std::string& path, std::vector<source> tensors,
                  const metadata& metadata = {}, const std::string& kind = "safetensors") {
    output_file file(kind, path);
    write_to(file, kind + ' ' + path, std::move(tensors), metadata);
    file.commit();
}

} // namespace mpt::safetensors
