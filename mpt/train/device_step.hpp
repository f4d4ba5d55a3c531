// SPDX-License-Identifier: MIT
/// @file device_step.hpp
/// The step on kernels: what the host need not know is decided on the device.  tier 5, needs:
/// comm/communicator.hpp kernels/adamw8bit.cuh kernels/scale.cuh nn/kernels.hpp nn/strategy.hpp
/// train/block_moments.hpp train/kernel_pass.hpp train/loss_scale.hpp
///
/// Idea     The verbs of a step in their order: begin, (forward, backward), inspect, (with ranks:
///          share), decide, the optimizer, end. Each becomes kernels; loss scale, found_inf, norm,
///          rate and counts stay in device memory, so the host puts a whole step into the stream,
///          or has it recorded, and hears of it later by one row of 64 bytes.
/// Formula  kernels/scale.cuh's; the bits of adamw.hpp and adam8bit.hpp
/// Costs    memory: 192 bytes, with ranks 216, 8 a micro-batch; 2048 for 8-bit maps.
///          host: nothing waits
/// Breaks   reading the row before its mark: told() waits for it.  A host that changes S: its own
///          copy follows the rows, the device's leads.  With ranks a step that is recorded: whether
///          the host wants to stop is an argument of share()
/// See      kernel_pass.hpp (the host decides), device_scale.hpp (the scale),
///          tests/train/device_step_test.cpp
#pragma once
#include "mpt/comm/communicator.hpp"   // communicator: all_reduce
#include "mpt/kernels/adamw8bit.cuh"   // adamw8bit
#include "mpt/kernels/scale.cuh"       // step_state, step_rules, step_row, begin_step, decide, ...
#include "mpt/nn/kernels.hpp"          // kernel_ops, on_device, device_queue, mark
#include "mpt/nn/strategy.hpp"         // owned_gradients, strategy
#include "mpt/train/block_moments.hpp" // block_moments, moment_parts, optimizer_state, check_step
#include "mpt/train/kernel_pass.hpp"   // joined, adamw_pass, adamw_args_of
#include "mpt/train/loss_scale.hpp"    // loss_scale

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace mpt {

using kernels::rate_rule;
using kernels::step_row;
using kernels::step_rules;

class device_step {
public:
    /// Goes on where `from` stands, after so many attempted and applied steps. eight_bits: keep the
    /// maps that adam8bit looks up. ranks: more than one share().
    device_step(const kernel_ops& ops, memory& mem, const step_rules& how, int micro_batches,
                const loss_scale& from, long attempted, long applied, bool eight_bits = false,
                int ranks = 1)
        : ops_(ops), rules_(how), state_(mem, kind::temp, 1, "the step's numbers"),
          found_(mem, kind::temp, 1, "what inspect finds"),
          losses_(mem, kind::temp, ranks > 1 ? shared(micro_batches) : std::size_t(micro_batches),
                  "losses of the micro-batches, and what ranks have found"),
          maps_(mem, kind::temp, eight_bits ? 512 : 0, "maps of the 8-bit moments"),
          rows_(mem, kind::temp, 2, "rows", place::host), micro_batches_(micro_batches) {
        from.validate();
        rules_.scale = {from.dynamic, from.growth, from.backoff, from.interval, from.minimum};
        kernels::step_state now{};
        now.scale = from.value, now.inverse = inverse_scale(from.value);
        now.growth_tracker = from.good;
        now.attempted = attempted, now.applied = applied;
        ops.copy_to_device(state_.span(), std::span<const kernels::step_state>(&now, 1));
        if (!eight_bits) return;
        std::vector<float> maps(std::begin(signed_map.value), std::end(signed_map.value));
        maps.insert(maps.end(), std::begin(unsigned_map.value), std::end(unsigned_map.value));
        ops.copy_to_device(maps_.span(), std::span<const float>(maps));
    }

    /// Bytes on the device, beside the scratch that inspect shares with the layers.
    static std::size_t bytes(int micro_batches, bool eight_bits, int ranks = 1) {
        return sizeof(kernels::step_state) + sizeof(kernels::inspect_result) +
               8 * (ranks > 1 ? shared(micro_batches) : std::size_t(micro_batches)) +
               (eight_bits ? 2048 : 0);
    }

    static std::size_t host_bytes() { return 2 * sizeof(step_row); } // of rows

    /// Before the window's first backward.
    void begin() {
        ops_.run("begin_step");
        kernels::begin_step(state(), rules_, ops_.queue.work);
    }
    /// Where the operations of this micro-batch find and leave their numbers.
    step_places places(int micro) {
        return {&state()->seed, &state()->place, losses_.span().data() + micro};
    }
    /// One read of the gradients, still scaled.
    template <class T>
    void inspect(const owned_gradients<T>& grads) {
        ops_.run("inspect");
        grads.visit([&]<class G>(const pieces<const G>& parts) {
            for (const piece<const G>& p : joined(parts)) {
                const std::size_t n = p.data.size();
                kernels::inspect(found(), viewed<G>(p.data), n,
                                 ops_.scratch(kernels::inspect_bytes(n)), ops_.queue.work);
                kernels::add_found(state(), found(), p.begin, ops_.queue.work);
            }
        });
    }
    /// With ranks: what each has found in the gradients that it alone has looked at becomes what
    /// all have, and the losses theirs, in one message. stop: this rank's host wants no more steps.
    void share(communicator& comm, bool stop) {
        const device_span<double> all = losses_.span();
        check(all.size() > std::size_t(micro_batches_),
              "device step: share without room for it; say how many ranks");
        ops_.run("share");
        double* const sums = all.data() + micro_batches_;
        kernels::give_found(state(), sums, stop, ops_.queue.work);
        comm.all_reduce(all);
        kernels::take_found(state(), sums, ops_.queue.work);
    }
    /// Numbers that it adds up over ranks, in fp64.
    static std::size_t shared(int micro_batches) {
        return std::size_t(micro_batches + kernels::found_sums);
    }
    /// The numbers of the optimizer: factor, rate, corrections.
    void decide() {
        ops_.run("decide");
        kernels::decide(state(), rules_, ops_.queue.work);
    }
    /// AdamW, where inspect found all finite; else nothing changes.
    template <class T>
    void adamw(const layout& map, const optimizer_state<T>& own, const owned_gradients<T>& grads) {
        adamw_pass(ops_, map, own, grads, source());
    }
    /// AdamW with moments in 8 bits.
    template <class T>
    void adam8bit(const layout& map, const block_moments<T>& own, const owned_gradients<T>& grads) {
        ops_.run("adam8bit");
        check(maps_.size() > 0, "device step: adam8bit without its maps; ask for eight_bits");
        optimizer_state<T> rest = own;
        rest.m = rest.v = {};
        moment_sizes sizes; // a task a tensor: as large as may be
        const auto parts = moment_parts(map, own.weights, sizes, std::size_t(1) << 40);
        own.check_sizes("adam8bit", sizes);
        grads.visit([&]<class G>(const pieces<const G>& g) {
            check_step("adam8bit", map, rest, g, 1, 0, 0);
            for (const moment_part& x : parts) {
                kernels::adamw8bit_args<device_t<T>, device_t<G>> a;
                a.rest = adamw_args_of<T, G>(own, g, x.piece, x.begin, x.end - x.begin,
                                             map.tensors[x.tensor].decays, source());
                if (!x.low) {
                    a.rest.m = own.m.data() + x.at;
                    a.rest.v = own.v.data() + x.at;
                    kernels::adamw(a.rest, ops_.queue.work);
                    continue;
                }
                a.m_codes = own.m_codes.data() + x.at, a.v_codes = own.v_codes.data() + x.at;
                a.m_absmax = own.m_absmax.data() + x.block;
                a.v_absmax = own.v_absmax.data() + x.block;
                a.signed_map = maps_.span().data(), a.unsigned_map = a.signed_map + 256;
                a.cell = x.cell;
                a.not_finite = &state()->row.bad_blocks;
                kernels::adamw8bit(a, ops_.queue.work);
            }
        });
    }
    /// Counts, loss scale, and the row.
    void end() {
        ops_.run("end_step");
        kernels::end_step(state(), rules_, losses_.span().data(), micro_batches_, ops_.queue.work);
    }

    /// Behind a step's work: its row is on its way to the host.
    void tell(long step) {
        const std::size_t i = std::size_t(step % 2);
        ops_.queue.copy_out(&rows_.host_span()[i], &state()->row, sizeof(step_row),
                            ops_.queue.work);
        ops_.queue.put(passed_[i], ops_.queue.work);
    }
    /// The row of `step`, this one or the one before: waits for that step only.
    step_row told(long step) {
        const std::size_t i = std::size_t(step % 2);
        ops_.queue.wait_for(passed_[i]);
        return rows_.host_span()[i];
    }

private:
    // State and results are the device's: addresses that the host hands on.
    kernels::step_state* state() { return state_.span().data(); }
    kernels::inspect_result* found() { return found_.span().data(); }

    adamw_source source() { return {{}, &state()->numbers, &state()->found_inf}; }

    const kernel_ops& ops_;
    step_rules rules_;
    buffer<kernels::step_state> state_;
    buffer<kernels::inspect_result> found_;
    buffer<double> losses_; // of micro-batches; with ranks behind them what they have found
    buffer<float> maps_;    // 256 entries of the signed map, 256 of the unsigned
    buffer<step_row> rows_; // on the host: of this step and the one before
    int micro_batches_;
    mark passed_[2]; // the rows have come
};

} // namespace mpt
