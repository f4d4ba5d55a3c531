// SPDX-License-Identifier: MIT
// kernels.hpp -- what a grader of kernels asks the emulator: its checks are on, and it counts.
#pragma once
#include "mpt/simt/counting.hpp" // counting
#include "mpt/simt/launch.hpp"   // the checks

namespace grade {

/// What the launches of f ask of the memory. Faults are thrown, with their line.
template <class F>
mpt::simt::access_counts counted(F f) {
    mpt::simt::counting c;
    f();
    return c.totals();
}

} // namespace grade
