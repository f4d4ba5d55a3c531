// SPDX-License-Identifier: MIT
/// @file narrator.hpp
/// Says what a rank gathers, reduces and frees, a line each.       tier 6, needs: base/error.hpp
///
/// Idea     Who holds what is the whole matter of ZeRO, and it changes many times a step. A
///          strategy has a narrator that is silent until it is given somewhere to speak.
/// Costs    silent: a comparison a unit
/// See      ddp.hpp, zero1.hpp, zero2.hpp, zero3.hpp (who speak), tests/dist/zero_test.cpp
#pragma once
#include "mpt/base/error.hpp" // join

#include <functional>
#include <string>

namespace mpt {

struct narrator {
    int rank = 0;
    std::function<void(const std::string& line)> tell = {}; // empty: silent

    template <class... Words>
    void operator()(const Words&... words) const {
        if (tell) tell(join("rank ", rank, ' ', words...));
    }
};

} // namespace mpt
