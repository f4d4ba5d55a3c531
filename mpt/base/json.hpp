// SPDX-License-Identifier: MIT
/// @file json.hpp
/// A small strict JSON reader.                    tier 0, needs: base/error.hpp base/json_value.hpp
/// base/json_write.hpp
///
/// Idea     Files from outside are read by the letter: strict UTF-8, no comments, no last commas,
///          no duplicate keys, nothing behind the value, at most 8 levels deep (so that 100,000
///          brackets cannot use up the stack). Numbers keep their text: 2^63 stays 2^63.
/// Costs    memory: about 120 bytes a value beside its text; parse_members holds one member at a
///          time, of at most 65536 values a list.  compute: one pass
/// Breaks   find() walks all members: loop over them where there are many
/// Source   RFC 8259
/// See      train/safetensors.hpp (its user), tests/base/json_test.cpp, tests/fuzz/
#pragma once
#include "mpt/base/error.hpp"      // join, error
#include "mpt/base/json_value.hpp" // value, member
#include "mpt/base/json_write.hpp" // utf8_length, quote

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt::json {

inline constexpr int deepest = 8; // arrays and objects inside one another; the outermost is 1

inline constexpr std::size_t longest_list = 65536; // values of a list inside parse_members

/// One recursive descent over the text; parse() and parse_members() below are how it is used.
class parser {
public:
    parser(std::string_view text, std::string_view name, std::size_t most = SIZE_MAX)
        : text_(text), name_(name), most_(most) {}

    value document() {
        value v = any(1);
        end();
        return v;
    }
    template <class Each>
    void document_members(Each each) {
        space();
        want(peek() == '{', "an object");
        members(1, each);
        end();
    }

private:
    void end() {
        space();
        want(at_ == text_.size(), "the end of the text");
    }
    value any(int depth) {
        space();
        value v;
        switch (peek()) {
        case '{':
            object(v, depth);
            break;
        case '[':
            array(v, depth);
            break;
        case '"':
            v.type = type::string;
            v.text = string();
            break;
        case 't':
            word("true");
            v.type = type::boolean;
            v.boolean = true;
            break;
        case 'f':
            word("false");
            v.type = type::boolean;
            break;
        case 'n':
            word("null");
            break;
        default:
            number(v);
        }
        return v;
    }

    void object(value& v, int depth) {
        v.type = type::object;
        members(depth, [&](member&& m) {
            count(v.members.size());
            v.members.push_back(std::move(m));
        });
    }

    template <class Each>
    void members(int depth, Each each) {
        open(depth);
        if (take('}')) return;
        std::vector<std::string> keys;
        do {
            space();
            want(peek() == '"', "a key in quotes");
            keys.push_back(string());
            space();
            want(take(':'), "':' behind a key");
            each(member{keys.back(), any(depth + 1)});
            space();
        } while (take(','));
        want(take('}'), "',' or '}'");

        std::sort(keys.begin(), keys.end());
        const auto twice = std::adjacent_find(keys.begin(), keys.end());
        if (twice != keys.end()) fail(join("the key ", quoted(*twice), " twice, wanted it once"));
    }

    void array(value& v, int depth) {
        v.type = type::array;
        open(depth);
        if (take(']')) return;
        do {
            count(v.items.size());
            v.items.push_back(any(depth + 1));
            space();
        } while (take(','));
        want(take(']'), "',' or ']'");
    }
    void count(std::size_t there) const {
        if (there >= most_) fail(join("more than ", most_, " values in a list"));
    }

    void open(int depth) {
        if (depth > deepest) fail(join("more than ", deepest, " levels of arrays and objects"));
        ++at_; // the bracket
        space();
    }

    // The grammar of RFC 8259, section 6: no leading zeros, no "+", no ".5", no NaN.
    void number(value& v) {
        const std::size_t begin = at_;
        take('-');
        want(digit(), begin == at_ ? "a value" : "a digit");
        if (!take('0')) digits();
        if (take('.')) digits();
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            digits();
        }
        v.type = type::number;
        v.text = text_.substr(begin, at_ - begin);
    }
    bool digit() const { return peek() >= '0' && peek() <= '9'; }
    void digits() {
        want(digit(), "a digit");
        while (digit()) ++at_;
    }

    std::string string() {
        std::string out;
        ++at_; // the quote
        while (!take('"')) {
            want(static_cast<unsigned char>(peek()) >= 0x20, "a character of a string, or its end");
            if (take('\\')) {
                escape(out);
                continue;
            }
            const std::size_t length = utf8_length(text_, at_);
            want(length != 0, "UTF-8");
            out.append(text_, at_, length);
            at_ += length;
        }
        return out;
    }

    void escape(std::string& out) {
        constexpr std::string_view names = "\"\\/bfnrt", means = "\"\\/\b\f\n\r\t";
        const std::size_t i = at_ < text_.size() ? names.find(text_[at_]) : names.npos;
        if (i != names.npos) {
            ++at_;
            out += means[i];
            return;
        }
        want(take('u'), "an escape of JSON");
        unsigned code = hex4();
        if (code >= 0xD800 && code < 0xDC00) { // the first half of a pair
            want(take('\\') && take('u'), "the second half of a surrogate pair");
            const unsigned low = hex4();
            want(low >= 0xDC00 && low < 0xE000, "the second half of a surrogate pair");
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        } else
            want(code < 0xDC00 || code >= 0xE000, "the first half of a surrogate pair");
        if (code < 0x80)
            out += char(code);
        else if (code < 0x800)
            (out += char(0xC0 | code >> 6)) += char(0x80 | (code & 63));
        else {
            if (code < 0x10000)
                out += char(0xE0 | code >> 12);
            else
                (out += char(0xF0 | code >> 18)) += char(0x80 | (code >> 12 & 63));
            (out += char(0x80 | (code >> 6 & 63))) += char(0x80 | (code & 63));
        }
    }
    unsigned hex4() {
        unsigned code = 0;
        const std::string_view four = text_.substr(at_, 4);
        const auto [end, fault] = std::from_chars(four.data(), four.data() + four.size(), code, 16);
        want(fault == std::errc() && four.size() == 4 && end == four.data() + 4, "4 hex digits");
        at_ += 4;
        return code;
    }

    void word(std::string_view w) {
        want(text_.substr(at_, w.size()) == w, "a value");
        at_ += w.size();
    }
    void space() {
        while (at_ < text_.size() &&
               std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
            ++at_;
    }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c) {
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void want(bool ok, const char* wanted) const {
        if (ok) return;
        if (at_ >= text_.size()) fail(join("the end of the text, wanted ", wanted));
        fail(join(quoted(text_.substr(at_, 1)), ", wanted ", wanted));
    }
    [[noreturn]] void fail(const std::string& found) const {
        throw error(
            join(name_, ": at byte ", at_, " of its JSON found ", found, "; write the file anew"));
    }
    static std::string quoted(std::string_view s) {
        return quote(s.size() > 60 ? std::string(s.substr(0, 57)) + "..." : std::string(s));
    }

    std::string_view text_, name_;
    std::size_t most_, at_ = 0;
};

/// The value that `text` holds, and nothing beside it. Throws one line that begins with `name` and
/// says at which byte what was found and what was wanted.
inline value parse(std::string_view text, std::string_view name = "json") {
    return parser(text, name).document();
}

/// The members of the object that `text` holds, each handed to `each(member&&)` as it is read: a
/// long text needs memory for its keys and for one member. Throws as parse does; what was handed
/// out before counts only when the call returns, since a duplicate key is found at the end.
template <class Each>
void parse_members(std::string_view text, std::string_view name, Each each) {
    parser(text, name, longest_list).document_members(each);
}

} // namespace mpt::json
