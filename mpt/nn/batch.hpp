// SPDX-License-Identifier: MIT
/// @file batch.hpp
/// What a model is shown at once, and which part of the whole batch it is. tier 4, needs:
/// base/device_span.hpp
///
/// Idea     A window (one optimizer step) is made of micro-batches on every rank. Each knows its
///          place in the whole, so that dropout draws the masks of the joined batch on any number
///          of ranks.
/// Formula  sample of row b = sample + b,  sample = (micro * ranks + rank) * B
/// See      train/data.hpp (who fills it), dropout.hpp (who needs step and sample)
#pragma once
#include "mpt/base/device_span.hpp" // device_span

#include <cstddef>

namespace mpt {

/// A target that is not to be learned, as in PyTorch; every negative target counts as one.
inline constexpr int ignored_target = -100;

struct batch {
    device_span<const int> inputs;  // (B,T) token numbers
    device_span<const int> targets; // (B,T) the token that follows, or ignored_target
    int B = 0, T = 0;               // rows, tokens a row
    int micro = 0;                  // its number in the window, from 0
    long step = 0;                  // attempted steps before this one
    long sample = 0;                // row 0's number in the whole window
};

} // namespace mpt
