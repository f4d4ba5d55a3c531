// SPDX-License-Identifier: MIT
/// @file kernel_pass.hpp
/// Gradients in a device's memory: added up, inspected, taken by AdamW.    tier 5, needs:
/// kernels/adamw.cuh kernels/inspect.cuh nn/kernels.hpp nn/strategy.hpp train/adamw.hpp
/// train/inspect.hpp
///
/// Idea     What grad_accum.hpp, inspect.hpp and adamw.hpp do on the CPU, by kernels and under the
///          same names: a step written for one machine runs on the other, and the host decides on
///          both. So it waits for what inspect() finds, once a step; device_step.hpp does not wait.
/// Formula  adamw.hpp's, to the bit; squares of a pack in fp32, packs in fp64 (kernels/inspect.cuh)
/// Costs    one read of the gradients; 28 bytes a parameter. Scratch: inspect_scratch()
/// Breaks   a launch for each unit of a flat buffer: joined() makes one of them
/// See      device_step.hpp (the device decides), tests/train/device_step_test.cpp
#pragma once
#include "mpt/kernels/adamw.cuh"   // adamw_args, adamw
#include "mpt/kernels/inspect.cuh" // inspect_result, inspect, inspect_bytes
#include "mpt/nn/kernels.hpp"      // kernel_ops, on_device, viewed
#include "mpt/nn/strategy.hpp"     // owned_gradients, optimizer_state
#include "mpt/train/adamw.hpp"     // adam_numbers, check_step
#include "mpt/train/inspect.hpp"   // health

#include <cstddef>
#include <cstdint>
#include <span>

namespace mpt {

/// sum = g where `first`, else sum + g, of the same elements: as grad_accum.hpp's on the CPU.
template <class T>
void accumulate(const kernel_ops& on, device_span<float> sum, device_view<T> grads, bool first) {
    check(sum.size() == grads.size(), "accumulate: a sum of ", sum.size(), " elements and ",
          grads.size(), " gradients; give the same part of both");
    on.run("accumulate");
    kernels::add_to_sums(sum.data(), viewed<T>(grads), sum.size(), first, on.queue.work);
}

/// Pieces that lie side by side become one: a launch for a flat buffer, not one a unit.
template <class E>
pieces<E> joined(const pieces<E>& parts) {
    pieces<E> all;
    for (const piece<E>& p : parts) {
        if (p.data.empty()) continue;
        if (!all.empty() && all.back().data.data() + all.back().data.size() == p.data.data() &&
            all.back().begin + all.back().data.size() == p.begin)
            all.back().data = {all.back().data.data(), all.back().data.size() + p.data.size()};
        else
            all.push_back(p);
    }
    return all;
}

/// Bytes that inspect() wants of the operations' scratch for n elements.
inline std::size_t inspect_scratch(std::size_t n) {
    return sizeof(kernels::inspect_result) + kernels::inspect_bytes(n);
}

/// Reads each element once, and waits. squares: one a run of pieces that lie side by side.
template <class T>
health inspect(const kernel_ops& on, const owned_gradients<T>& grads) {
    on.run("inspect");
    health h;
    grads.visit([&]<class G>(const pieces<const G>& parts) {
        for (const piece<const G>& p : joined(parts)) {
            const std::size_t n = p.data.size();
            auto* const there =
                static_cast<kernels::inspect_result*>(on.scratch(inspect_scratch(n)));
            kernels::inspect(there, viewed<G>(p.data), n, there + 1, on.queue.work);
            kernels::inspect_result found{};
            on.copy_to_host(std::span(&found, 1), device_span<kernels::inspect_result>(there, 1));
            if (found.bad > 0 && h.bad == 0) h.first_bad = p.begin + std::size_t(found.first_bad);
            h.bad += std::size_t(found.bad);
            h.count += n;
            h.squares.push_back(found.squares);
        }
    });
    h.finite = h.bad == 0;
    return h;
}

/// f(from, to, decays) for the parts of [begin, end) of the flat buffer that decay, or do not.
template <class F>
void by_decay(const layout& map, std::size_t begin, std::size_t end, F f) {
    std::size_t from = begin, to = begin;
    bool decays = false;
    update_parts::by_tensor(map, begin, end, [&](std::size_t b, std::size_t e, std::size_t tensor) {
        if (from < to && map.tensors[tensor].decays != decays) f(from, to, decays), from = b;
        decays = map.tensors[tensor].decays;
        to = e;
    });
    if (from < to) f(from, to, decays);
}

/// Where the kernel finds the numbers of a step: here, or on the device.
struct adamw_source {
    kernels::adamw_numbers numbers = {};
    const kernels::adamw_numbers* device_numbers = nullptr; // not null: taken instead
    const float* found_inf = nullptr; // on the device; not 0: nothing changes. Null: not asked
};

/// What the kernel is given of n weights from element `from` of piece `i` on, but for the moments.
template <class T, class G>
kernels::adamw_args<device_t<T>, device_t<G>>
adamw_args_of(const optimizer_state<T>& own, const pieces<const G>& g, std::size_t i,
              std::size_t from, std::size_t n, bool decays, const adamw_source& by) {
    kernels::adamw_args<device_t<T>, device_t<G>> a;
    a.p = own.master.empty() ? nullptr : own.master[i].data.data() + from;
    a.g = on_device(g[i].data.data() + from);
    a.weights = on_device(own.weights[i].data.data() + from);
    a.n = n, a.first = own.weights[i].begin + from, a.decays = decays;
    a.numbers = by.numbers, a.device_numbers = by.device_numbers, a.found_inf = by.found_inf;
    a.rounding_seed = own.rounding_seed.value_or(0);
    return a;
}

/// AdamW's pass over all that this rank owns.
template <class T>
void adamw_pass(const kernel_ops& on, const layout& map, const optimizer_state<T>& own,
                const owned_gradients<T>& grads, const adamw_source& by) {
    on.run("adamw");
    grads.visit([&]<class G>(const pieces<const G>& g) {
        check_step("adamw", map, own, g, 1, 0, 2);
        std::size_t packed = 0; // of m and v, which have no gaps
        for (std::size_t i = 0; i < g.size(); packed += g[i++].data.size()) {
            const std::size_t start = g[i].begin;
            by_decay(map, start, start + g[i].data.size(),
                     [&](std::size_t from, std::size_t to, bool decays) {
                         auto a =
                             adamw_args_of<T, G>(own, g, i, from - start, to - from, decays, by);
                         a.m = own.m.data() + packed + (from - start);
                         a.v = own.v.data() + packed + (from - start);
                         kernels::adamw(a, on.queue.work);
                     });
        }
    });
}

/// What adamw::step asks for on this machine.
template <class T>
void adamw_update(const kernel_ops& on, const layout& map, const optimizer_state<T>& own,
                  const owned_gradients<T>& grads, const adam_numbers<float>& c, float decay,
                  long t) {
    adamw_pass(on, map, own, grads,
               {{c.factor, c.keep1, c.keep2, c.rate, c.correction, c.eps, decay, std::uint32_t(t)},
                nullptr,
                nullptr});
}

} // namespace mpt
