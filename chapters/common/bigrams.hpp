// SPDX-License-Identifier: MIT
// bigrams.hpp -- the smallest model there is, on the device: which of V words follows each of R. A
// row of weights is a row of logits. Its step has all that a large model's has.
#pragma once
#include "device.hpp" // array, on_gpu

#include "mpt/base/memory.hpp"           // memory, buffer
#include "mpt/kernels/adamw.cuh"         // adamw_args
#include "mpt/kernels/cross_entropy.cuh" // cross_entropy_forward, cross_entropy_backward
#include "mpt/kernels/reduce.cuh"        // sum
#include "mpt/kernels/scale.cuh"         // step_state, step_rules, step_row
#include "mpt/nn/device.hpp"             // device_queue, mark
#include "mpt/train/adam_moments.hpp"    // numbers_of
#include "mpt/train/token_feed.hpp"      // token_feed

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

inline std::vector<__half> halves(const std::vector<float>& x, float scale) {
    std::vector<__half> y;
    for (const float v : x) y.push_back(__float2half(v * scale));
    return y;
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// What an optimizer keeps of n weights: master, moments, the 16-bit copy; and the gradients.
struct parameters {
    array<float> p, m, v;
    array<__half> w, g;

    parameters(const std::vector<float>& first, const std::vector<__half>& grads)
        : p(first), m(std::vector<float>(first.size())), v(std::vector<float>(first.size())),
          w(halves(first, 1)), g(grads) {}
    adamw_args<__half, __half> args() const {
        adamw_args<__half, __half> a;
        a.p = p.data(), a.m = m.data(), a.v = v.data(), a.g = g.data(), a.weights = w.data();
        a.n = p.size();
        return a;
    }
    bool same(const parameters& o) const {
        return same_bits(p.read(), o.p.read()) && same_bits(m.read(), o.m.read()) &&
               same_bits(v.read(), o.v.read()) && same_bits(w.read(), o.w.read());
    }
};

struct bigrams {
    int R, V;
    mpt::device_queue queue;
    mpt::memory mem{0, mpt::device_memory(), mpt::pinned_memory()};
    parameters at;
    array<float> losses, lse;
    array<double> loss{1};
    array<inspect_result> found{1};
    array<char> scratch;
    array<step_state> state; // the device's: scale, found_inf, the numbers of AdamW
    mpt::token_feed feed;
    mpt::buffer<step_row> rows;       // on the host: of this step and the one before
    mpt::buffer<inspect_result> seen; // on the host, for who asks
    mpt::mark passed[2];
    step_rules rules;

    // The first scale is so large that the first gradients overflow.
    bigrams(int rows, int words)
        : R(rows), V(words), at(std::vector<float>(n()), std::vector<__half>(n())),
          losses(std::size_t(R)), lse(std::size_t(R)),
          scratch(std::max(inspect_bytes(n()), sum_bytes(std::size_t(R)))), state(1),
          feed(queue, mem, std::size_t(R)), rows(mem, mpt::kind::temp, 2, "rows", mpt::place::host),
          seen(mem, mpt::kind::temp, 1, "what inspect found", mpt::place::host) {
        rules.rate.rate = 0.1;
        rules.max_norm = 0.05;
        rules.tokens = R;
        step_state now{};
        now.scale = scale(), now.inverse = 1 / now.scale;
        ok(cudaMemcpy(state.data(), &now, sizeof now, cudaMemcpyHostToDevice), "to the device");
    }
    std::size_t n() const { return std::size_t(R) * std::size_t(V); }
    float scale() const { return 0x1p18f * float(std::bit_ceil(unsigned(R))); }

    // The next words are on their way to the device, where step `step` finds them.
    const int* send(long step) {
        feed.inputs(step); // one each: not asked for
        const std::span<int> next = feed.targets(step);
        for (int r = 0; r < R; ++r) // mostly one and the same
            next[std::size_t(r)] = (r + step) % 4 ? (5 * r + 3) % V : int((r + 7 * step) % V);
        feed.send(step);
        return feed.device_targets(step).data();
    }
    // Gradients at w and their loss; the seed is *device_seed, or where that is null, `seed`.
    void forward_backward(const int* next, float seed, const float* device_seed) const {
        cross_entropy_forward<__half>({losses.data(), lse.data(), at.w.data(), next, R, V},
                                      queue.work);
        cross_entropy_backward<__half>(
            {at.g.data(), at.w.data(), lse.data(), next, seed, device_seed, R, V}, queue.work);
        sum(loss.data(), losses.data(), std::size_t(R), scratch.data(), queue.work);
    }
    // Are they finite, how long are they? The answer stays on the device ...
    void inspect() const {
        mpt::kernels::inspect(found.data(), at.g.data(), n(), scratch.data(), queue.work);
    }
    // ... unless the host waits for it, and so for all that is in the stream.
    inspect_result ask() {
        queue.copy_out(seen.host_span().data(), found.data(), sizeof(inspect_result), queue.work);
        queue.wait();
        return seen.host_span()[0];
    }
    // AdamW's numbers of the t-th applied step, as the device works them out.
    adamw_numbers numbers(long t, double factor) const {
        const auto k = mpt::numbers_of<float>(rules, factor, rules.rate.rate, t);
        return {k.factor,
                k.keep1,
                k.keep2,
                k.rate,
                k.correction,
                k.eps,
                float(rules.rate.rate * rules.weight_decay),
                std::uint32_t(t)};
    }
    // The step's row is on its way to the host, which may read it while the next one runs.
    void tell(long step) {
        const std::size_t i = std::size_t(step % 2);
        queue.copy_out(&rows.host_span()[i], &state.data()->row, sizeof(step_row), queue.work);
        queue.put(passed[i], queue.work);
    }
    step_row told(long step) {
        queue.wait_for(passed[step % 2]);
        return rows.host_span()[std::size_t(step % 2)];
    }
};
