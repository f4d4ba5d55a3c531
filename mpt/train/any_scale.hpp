// SPDX-License-Identifier: MIT
/// @file any_scale.hpp
/// What every loss scale has: a value, an account, a saved state.     tier 5, needs: base/error.hpp
///
/// Idea     Two state machines are in use, GradScaler's (loss_scale.hpp) and DeepSpeed's
///          (hysteresis_scale.hpp). They differ in when S moves; they share, and here stands, what
///          S is for, the count of skipped steps, why a change happened and how a state is saved.
/// Formula  seed = S / tokens of the whole window;  inverse = float(1 / double(S))
/// Breaks   a state read by another machine or version: the same words may mean other things, so
///          each state names both, and a reader refuses what it does not know
/// See      loss_scale.hpp, hysteresis_scale.hpp, tests/train/loss_scale_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check, join

#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

namespace mpt {

/// The shortest text that reads back as x.
template <class Number>
std::string shortest(Number x) {
    char digits[40];
    return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
}

/// What the latest update did, for the log.
struct scale_change {
    float from = 0, to = 0;
    bool skipped = false; // the step was not taken
    std::string why;      // empty: a finite step like any other, nothing to tell

    /// "step 41: WHY; scale 65536 -> 32768; step skipped", or nothing where nothing happened.
    std::string line(long step) const {
        if (why.empty()) return {};
        const std::string moved = from == to ? join("scale stays ", shortest(to))
                                             : join("scale ", shortest(from), " -> ", shortest(to));
        return join("step ", step, ": ", why, "; ", moved, skipped ? "; step skipped" : "");
    }
};

struct any_scale {
    float value = 65536.0f;    // S. A power of two costs the gradients no bit
    bool dynamic = true;       // false: S stays what it is
    int patience = 10;         // S fixed: so many skipped steps in a row are an error. 0: never
    long skipped = 0;          // steps lost to overflow, over the whole run
    long skipped_in_a_row = 0; // ... and since the last finite one
    scale_change last;         // what the latest update did

    /// What backward starts from: d(loss)/d(loss), scaled, with the mean over the tokens of the
    /// whole window (all micro-batches, all ranks) folded in. Throws for a window without a target.
    float seed(long tokens) const {
        check_tokens(tokens);
        return float(double(value) / double(tokens));
    }

    static void check_tokens(long tokens) {
        check(tokens > 0, "loss scale: a window with ", tokens,
              " target tokens has no mean loss; leave it out, or give data with targets");
    }

    /// What an overflow at the smallest scale means, for both machines.
    static constexpr const char* at_the_minimum =
        "; the scale is not the cause: lower the learning rate, look for NaN in data and weights, "
        "or train in bf16 or fp32";

protected:
    /// Every update begins so. Throws where a fixed scale has skipped `patience` steps in a row.
    void count(bool finite, std::string_view found) {
        last = {value, value, !finite, {}};
        skipped_in_a_row = finite ? 0 : skipped_in_a_row + 1;
        if (finite) return;
        ++skipped;
        last.why = found.empty() ? std::string_view("gradients not finite") : found;
        check(dynamic || patience == 0 || skipped_in_a_row < patience, "loss scale: ", last.why,
              "; ", skipped_in_a_row, " steps in a row skipped at the fixed scale ",
              shortest(value),
              value > 1 ? "; lower it or let it be dynamic" : "; lower the learning rate");
    }

    void validate_common() const {
        check(std::isfinite(value) && value > 0, "loss scale: ", shortest(value),
              " cannot scale anything; it must be finite and greater than 0, best a power of two");
        check(patience >= 0 && skipped >= 0 && skipped_in_a_row >= 0, "loss scale: patience ",
              patience, ", skipped ", skipped, " (", skipped_in_a_row,
              " in a row); none of them is ever negative");
    }
};

/// A state as text, by the names that PyTorch or DeepSpeed have for the same thing.
using scale_words = std::map<std::string, std::string>;

template <class Number>
void read_saved(const scale_words& saved, const char* key, Number& to) {
    const auto at = saved.find(key);
    check(at != saved.end(), "loss scale: the saved state has no ", key,
          "; take a checkpoint that was written whole");
    const char* end = at->second.data() + at->second.size();
    const auto [stop, status] = std::from_chars(at->second.data(), end, to);
    check(status == std::errc() && stop == end, "loss scale: ", key, " is saved as \"", at->second,
          "\"; wanted a number; take another checkpoint");
}
inline void read_saved(const scale_words& saved, const char* key, bool& to) {
    int word = 0;
    read_saved(saved, key, word);
    check(word == 0 || word == 1, "loss scale: ", key, " is saved as \"", word,
          "\"; wanted 0 or 1; take another checkpoint");
    to = word == 1;
}

/// Every state begins with these two words ...
inline scale_words named_state(const char* kind, const char* version) {
    return {{"kind", kind}, {"version", version}};
}
/// ... and every reader with this question.
inline void check_named(const scale_words& saved, const std::string& kind,
                        const std::string& version) {
    const auto word = [&](const char* key) {
        const auto at = saved.find(key);
        check(at != saved.end(), "loss scale: the saved state has no ", key, ", wanted ", kind,
              " of version ", version, "; it is of an earlier version or another program: take up "
              "PyTorch's with loss_scale::from_pytorch, or begin with a new scale");
        return at->second;
    };
    const std::string found = word("kind"), number = word("version");
    check(found == kind, "loss scale: the saved state is that of a ", found, ", wanted a ", kind,
          "'s; go on with the scaler that saved it, or begin with a new scale");
    check(number == version, "loss scale: the saved state has version ", number, ", wanted ",
          version, "; go on with the program that saved it, or begin with a new scale");
}

} // namespace mpt
