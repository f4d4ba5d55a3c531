// SPDX-License-Identifier: MIT
/// @file json_write.hpp
/// Strings and numbers as JSON writes them.                                tier 0, needs: std only
///
/// Idea     What is written can always be read: strings are escaped, bytes that are not UTF-8 are
///          replaced, numbers take the fewest digits that read back as the same value.
/// Breaks   JSON has no NaN and no infinity: both become null
/// Source   RFC 8259; RFC 3629 for UTF-8
/// See      json.hpp (the reader), trace.hpp (a user), tests/base/json_test.cpp
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace mpt::json {

/// Bytes of the UTF-8 sequence that begins at text[at]: 1 to 4, or 0 where there is none: overlong
/// forms, surrogates and what lies past U+10FFFF are none.
inline std::size_t utf8_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
        return at + i < text.size() ? unsigned(static_cast<unsigned char>(text[at + i])) : 0u;
    };
    const unsigned lead = byte(0);
    if (lead < 0x80) return at < text.size() ? 1 : 0;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xC0) != 0x80) return 0;
    const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    const bool beyond = lead == 0xF4 && byte(1) > 0x8F;
    return overlong || surrogate || beyond ? 0 : length;
}

/// Bytes from the beginning of `text` that are UTF-8: all of them, or up to the first fault.
inline std::size_t utf8_prefix(std::string_view text) {
    std::size_t at = 0;
    while (const std::size_t length = utf8_length(text, at)) at += length;
    return at;
}

/// `s` in quotes. Bytes that are not UTF-8 become U+FFFD.
inline std::string quote(std::string_view s) {
    std::string out = "\"";
    for (std::size_t at = 0; at < s.size();) {
        const std::size_t length = utf8_length(s, at);
        const unsigned char c = static_cast<unsigned char>(s[at]);
        char code[8];
        if (length == 0)
            out += "\\ufffd";
        else if (c == '"' || c == '\\')
            (out += '\\') += char(c);
        else if (c < 0x20 || c == 0x7F) {
            std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
            out += code;
        } else
            out.append(s, at, length);
        at += std::max<std::size_t>(length, 1);
    }
    return out += '"';
}

/// The shortest digits that read back as `x` (float or double); null where it is not finite.
template <class Float>
std::string number(Float x) {
    if (!std::isfinite(x)) return "null";
    char digits[40];
    return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

} // namespace mpt::json
