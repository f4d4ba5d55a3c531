// SPDX-License-Identifier: MIT
/// @file json_value.hpp
/// What a JSON text holds.                                                 tier 0, needs: std only
///
/// Idea     One struct for every kind of value. Numbers keep their text, and are asked for as the
///          type that the caller needs: 2^63 stays 2^63, and 1.5 is no whole number.
/// Costs    memory: about 120 bytes a value beside its text
/// Breaks   find() walks all members: loop over them where there are many
/// Source   RFC 8259
/// See      json.hpp (the reader), tests/base/json_test.cpp
#pragma once
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt::json {

enum class type { null, boolean, number, string, array, object };

inline const char* to_string(type t) {
    constexpr const char* names[] = {"null",     "a boolean", "a number",
                                     "a string", "an array",  "an object"};
    return names[int(t)];
}

struct member;

/// Any JSON value. Fields that do not belong to its type are empty.
struct value {
    json::type type = json::type::null;
    bool boolean = false;
    std::string text;            // a string, unescaped; a number as it was written
    std::vector<value> items;    // of an array
    std::vector<member> members; // of an object, in the order of the file

    /// The member called `key`, or nullptr.
    const value* find(std::string_view key) const;

    /// A number that is a whole one, written without point, exponent and sign. Other values, and
    /// those past 64 bits, give false.
    bool to(std::uint64_t& out) const { return read(out); }
    bool to(std::int64_t& out) const { return read(out); } // with a sign
    /// A number, rounded to the nearest double. Numbers past its range, or too small for it, give
    /// false.
    bool to(double& out) const { return read(out); }

private:
    template <class N>
    bool read(N& out) const {
        if (type != json::type::number) return false;
        const char* end = text.data() + text.size();
        const auto [at, fault] = std::from_chars(text.data(), end, out);
        return fault == std::errc() && at == end;
    }
};

struct member {
    std::string key;
    json::value value;
};

inline const value* value::find(std::string_view key) const {
    for (const member& m : members)
        if (m.key == key) return &m.value;
    return nullptr;
}

} // namespace mpt::json
