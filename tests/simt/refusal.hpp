// SPDX-License-Identifier: MIT
// What a call says when it refuses, and a look into the text.
#pragma once
#include "mpt/base/error.hpp"

#include <string>

namespace refusal {

/// The error's line, or "nothing was thrown".
template <class F>
std::string of(F f) {
    try {
        f();
    } catch (const mpt::error& e) {
        return e.what();
    }
    return "nothing was thrown";
}

/// "" if `text` has every part, in this order; else the text and the first part it lacks.
template <class... Parts>
std::string lacks(const std::string& text, const Parts&... parts) {
    std::size_t at = 0;
    std::string missing;
    const auto look = [&](const std::string& part) {
        if (!missing.empty()) return;
        const std::size_t found = text.find(part, at);
        if (found == text.npos)
            missing = "'" + text + "' has no '" + part + "'";
        else
            at = found + part.size();
    };
    (look(mpt::join(parts)), ...);
    return missing;
}

} // namespace refusal
