// SPDX-License-Identifier: MIT
/// @file rendezvous_words.hpp
/// What ranks say at a rendezvous, byte by byte.                           tier 2, needs:
/// base/error.hpp
///
/// Idea     Both ends may be of other versions, other runs, or no ranks at all: so every message
///          says at its beginning what it is, and how long.
/// Formula  hello: "MPTR", version, rank, world size, bytes wanted, length of run id, of host name,
///          these two; answer: "MPTR", version, 1 or 0, length, the bytes or why not.
///          Numbers: 32 bits, lowest byte first
/// Breaks   a structure sent as it lies in memory: padding and byte order are the compiler's
/// See      rendezvous.hpp, tests/comm/rendezvous_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <unistd.h>

namespace mpt::rendezvous {

inline constexpr std::string_view magic = "MPTR";
inline constexpr std::uint32_t version = 1;
inline constexpr std::size_t head = 28;        // bytes of a hello before its texts
inline constexpr std::size_t answer_head = 16; // and of an answer
inline constexpr std::size_t longest = 255;    // bytes of a text

inline void put(std::string& to, std::uint32_t x) {
    for (int i = 0; i < 4; ++i) to += char(x >> 8 * i & 255);
}
inline std::uint32_t take(std::string_view from, std::size_t at) {
    std::uint32_t x = 0;
    for (std::size_t i = 0; i < 4; ++i) x |= std::uint32_t(std::uint8_t(from[at + i])) << 8 * i;
    return x;
}
inline std::span<const std::byte> bytes(std::string_view s) {
    return std::as_bytes(std::span(s.data(), s.size()));
}

struct hello {
    std::uint32_t version, rank, world_size, bytes;
    std::string run_id, host;

    std::string packed() const {
        check(run_id.size() <= longest, "rendezvous: the run id has ", run_id.size(),
              " letters, wanted at most ", longest, "; set a shorter MPT_RUN_ID");
        std::string s(magic);
        for (const std::uint32_t x : {version, rank, world_size, bytes,
                                      std::uint32_t(run_id.size()), std::uint32_t(host.size())})
            put(s, x);
        return s + run_id + host;
    }
};

inline std::string answer(bool yes, std::string_view text) {
    std::string s(magic);
    for (const std::uint32_t x : {version, std::uint32_t(yes), std::uint32_t(text.size())})
        put(s, x);
    return s.append(text);
}

inline std::string host_name() {
    char name[longest + 1] = "?";
    gethostname(name, longest);
    return name;
}

} // namespace mpt::rendezvous
