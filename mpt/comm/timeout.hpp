// SPDX-License-Identifier: MIT
/// @file timeout.hpp
/// How long a rank waits for another before it says so.                    tier 2, needs:
/// base/error.hpp
///
/// Idea     A rank that never comes would make all others wait for ever. Every wait of comm/ has
///          this deadline, and an error at its end names who is missing, and where.
/// Breaks   a deadline below the longest thing that one rank does alone (rank 0 writes a file):
///          ranks that are only late are then taken for lost
/// See      run_state.hpp (the wait), tests/comm/timeout_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace mpt {

/// MPT_TIMEOUT_S of the environment in seconds, fractions allowed; 300 where it is not set.
inline double timeout_seconds() {
    const char* const text = std::getenv("MPT_TIMEOUT_S");
    if (!text) return 300;
    double seconds = 0;
    const char* const end = text + std::strlen(text);
    const auto [stop, fault] = std::from_chars(text, end, seconds);
    check(fault == std::errc() && stop == end && seconds > 0 && seconds <= 1e6,
          "MPT_TIMEOUT_S is '", text,
          "'; wanted seconds above 0 and up to 1e6, such as 300 or 0.5");
    return seconds;
}

} // namespace mpt
