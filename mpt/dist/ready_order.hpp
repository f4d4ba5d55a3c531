// SPDX-License-Identifier: MIT
/// @file ready_order.hpp
/// In which order gradients become ready: one, on every rank.              tier 6, needs:
/// nn/params.hpp
///
/// Idea     What a rank starts when a unit is ready the others must start as well, and in the same
///          order: two units of one size that are swapped on one rank would be added to each other
///          without a word. So the order is fixed: units from the last to the first, as backward
///          makes them, micro-batch after micro-batch. Whoever departs from it is told, by name.
/// Breaks   a parameter that a rank does not use and therefore leaves out: its gradient there is 0
///          and is reported like any other
/// See      bucket.hpp, ddp.hpp, zero1.hpp, zero2.hpp (who ask it), tests/dist/zero_test.cpp
#pragma once
#include "mpt/nn/params.hpp" // layout, check

#include <cstddef>
#include <string>

namespace mpt {

class ready_order {
public:
    /// Of windows of `micros` micro-batches. The layout outlives it.
    ready_order(const layout& map, int micros) : map_(map), micros_(micros) {
        check(micros >= 1, "a window of ", micros, " micro-batches; wanted 1 or more");
    }

    /// Throws unless it is the turn of this unit and micro-batch.
    void next(int unit, int micro) {
        check(micro_ < micros_, "ready: ", name(unit), " after the window's ", micros_,
              " micro-batches; call finish() first, or make a strategy for more");
        check(unit == wanted() && micro == micro_, "ready: ", name(unit), " of micro-batch ", micro,
              ", wanted ", name(wanted()), " of micro-batch ", micro_,
              ": units from the last to the first, on every rank; one that is not used has a "
              "gradient of 0");
        if (++done_ < int(map_.units.size())) return;
        done_ = 0;
        ++micro_;
    }

    /// Is a micro-batch complete, and the next one not begun?
    bool between() const { return done_ == 0; }

    /// The window is at its end. Throws where something is missing, names what comes first.
    void finish() {
        check(micro_ == micros_, "finish: ", name(wanted()), " of micro-batch ", micro_,
              " is not ready, of a window of ", micros_,
              "; one that is not used has a gradient of 0");
        micro_ = 0;
    }

private:
    int wanted() const { return int(map_.units.size()) - 1 - done_; }
    std::string name(int unit) const {
        return unit >= 0 && unit < int(map_.units.size()) ? map_.units[std::size_t(unit)].name
                                                          : "unit " + std::to_string(unit);
    }

    const layout& map_;
    int micros_;
    int micro_ = 0, done_ = 0; // the micro-batch at hand, and how many units of it are ready
};

} // namespace mpt
