// SPDX-License-Identifier: MIT
/// @file error.hpp
/// One clear line when something is wrong.                                 tier 0, needs: std only
///
/// Idea     Say the thing, what was found, what was wanted and what to do, and throw. A header
///          never exits; the program prints the line and chooses the exit status.
/// Costs    the parts of a message are put together only when the check fails
/// Breaks   inside a kernel or a thread that cannot throw: check before the launch
/// See      tests/base/error_test.cpp
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace mpt {

/// What every header throws. what() is one line, without a newline at its end.
struct error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The parts, one after the other, as operator<< writes them.
template <class... Parts>
std::string join(const Parts&... parts) {
    std::ostringstream line;
    (void(line << parts), ...);
    return line.str();
}

/// Throw an error made of `parts` unless `ok`.
template <class... Parts>
void check(bool ok, const Parts&... parts) {
    if (!ok) throw error(join(parts...));
}

} // namespace mpt
