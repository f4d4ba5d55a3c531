// SPDX-License-Identifier: MIT
/// @file device_scale.hpp
/// The loss scale in device memory: no step waits for the host.            tier 5, needs:
/// base/error.hpp base/memory.hpp nn/cpu.hpp nn/params.hpp numeric/loss_scale_rule.hpp
/// numeric/scalar.hpp train/inspect.hpp train/loss_scale.hpp
///
/// Idea     A host that reads `finite` every step waits for the device every step. Instead the
///          operations write and read 24 bytes there: backward its seed, the check found_inf, the
///          optimizer found_inf and 1/S, and at the end one thread moves S by the same rule.
/// Formula  S and tracker: update_scale of numeric/loss_scale_rule.hpp, bit for bit loss_scale's
/// Costs    memory: 24 bytes of the device.  host: nothing until read(), say every 100 steps
/// Breaks   a host that asks each step whether it was skipped has the wait back. An overflow at
///          the minimum cannot throw here: it is counted, and read() throws, some steps late
/// Source   PyTorch keeps _scale, _growth_tracker and found_inf on the device for the same reason
/// See      loss_scale.hpp (the same on the host), tests/train/device_scale_test.cpp
#pragma once
#include "mpt/base/error.hpp"              // check
#include "mpt/base/memory.hpp"             // memory, buffer, device_span
#include "mpt/nn/cpu.hpp"                  // cpu
#include "mpt/nn/params.hpp"               // pieces
#include "mpt/numeric/loss_scale_rule.hpp" // scale_state, update_scale, inverse_scale
#include "mpt/numeric/scalar.hpp"          // wide_t, widen
#include "mpt/train/inspect.hpp"           // inspect
#include "mpt/train/loss_scale.hpp"        // loss_scale: where it comes from and goes to

#include <cstddef>
#include <span>

namespace mpt {

// ---- operations of the plain loops: each is a kernel of one or of many threads on a GPU --------

/// state.found_inf = 1 where an element is not finite; else it stays, so checks add up.
template <class G>
void check_finite(const cpu& on, device_span<scale_state> state, const pieces<G>& grads) {
    if (!inspect(on, grads).finite) state.data()->found_inf = 1;
}

/// seed = S / tokens of the whole window: what backward starts from. Throws where there are none.
inline void scale_seed(const cpu&, device_span<float> seed, device_view<scale_state> state,
                       long tokens) {
    any_scale::check_tokens(tokens);
    *seed.data() = float(double(state.data()->scale) / double(tokens));
}

/// g / S in fp32 or wider, from gradients that stay as they are.
template <class G>
void unscale(const cpu& on, device_span<wide_t<G>> to, device_view<scale_state> state,
             device_view<G> grads) {
    check(to.size() == grads.size(), "unscale: ", grads.size(), " gradients for a place of ",
          to.size(), "; they must agree");
    on.pool.for_ranges(to.size(), block_size, [&](std::size_t i, std::size_t end, int) {
        const auto factor = wide_t<G>(state.data()->inverse);
        for (; i < end; ++i) to.data()[i] = wide_t<G>(widen(grads.data()[i])) * factor;
    });
}

/// Moves S and clears found_inf: the last operation of a step.
inline void update_scale(const cpu&, device_span<scale_state> state, const loss_scale_rule& rule) {
    update_scale(*state.data(), rule);
}

// ---- who owns the 24 bytes ---------------------------------------------------------------------

struct device_scale {
    /// Goes on where `from` stands. Ops: the operations, for the copy to the device.
    template <class Ops>
    device_scale(const Ops& ops, memory& mem, const loss_scale& from)
        : host(from), memory_(mem, kind::temp, 1, "the loss scale") {
        check(from.dynamic, "device scale: the scale is fixed at ", shortest(from.value),
              "; a number that never moves needs no device memory, pass it to the operations");
        from.validate();
        const scale_state now{from.value, inverse_scale(from.value), 0, from.good, 0, 0};
        ops.copy_to_device(memory_.span(), std::span<const scale_state>(&now, 1));
    }

    device_span<scale_state> state() { return memory_.span(); }
    const loss_scale_rule& rule() const { return host; }

    /// What loss_scale would be now, for the log and the checkpoint: the one wait for the device.
    /// Skips in a row, which matter to a fixed scale only, are not counted there: 0. Throws where
    /// an overflow has met the minimum since the device scale began.
    template <class Ops>
    loss_scale read(const Ops& ops) {
        scale_state now;
        ops.copy_to_host(std::span<scale_state>(&now, 1), memory_.span());
        check(now.stuck == 0, "loss scale: gradients not finite at the smallest scale ",
              shortest(now.scale), ", ", now.stuck, " times", any_scale::at_the_minimum);
        loss_scale s = host;
        s.value = now.scale;
        s.good = now.growth_tracker;
        s.skipped = host.skipped + now.skipped;
        s.skipped_in_a_row = 0;
        return s;
    }

private:
    loss_scale host; // as it was at the start
    buffer<scale_state> memory_;
};

} // namespace mpt
