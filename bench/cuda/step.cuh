// SPDX-License-Identifier: MIT
// step.cuh -- the whole step of GPT-2 124M against the rate of cuBLAS's largest product, and with
// the products by our kernels against those by cuBLAS.
#pragma once
#include "device.cuh"

#include "mpt/base/memory.hpp"          // memory, buffer
#include "mpt/dist/one_rank.hpp"        // one_rank
#include "mpt/nn/cublas.hpp"            // cublas_ops
#include "mpt/nn/gpt.hpp"               // gpt, gpt_acts
#include "mpt/nn/kernel_scratch.hpp"    // gpt_kernel_scratch
#include "mpt/numeric/cast.hpp"         // cast
#include "mpt/train/device_step.hpp"    // device_step
#include "mpt/train/master_weights.hpp" // master_of

#include <algorithm>
#include <memory>

namespace bench {

/// A step as `./run train --precision bf16 --device cuda` takes it, on made-up tokens. From the
/// third on it is begun as one graph. Ops: the list of operations.
template <class Ops>
class gpu_step {
    using T = mpt::bf16;

public:
    gpu_step(const mpt::gpt_config& c, int B, int T_)
        : ops(queue, mem, std::max(mpt::gpt_kernel_scratch(c, B, T_), Ops::product_bytes())),
          model(c, ops), strategy(ops, model.map), P(model.map.size()),
          weights(mem, mpt::kind::weights, P, "weights"),
          grads(mem, mpt::kind::grads, P, "gradients"),
          master(mem, mpt::kind::master, P, "master weights"), m(mem, mpt::kind::moments, P, "m"),
          v(mem, mpt::kind::moments, P, "v"),
          tokens(mem, mpt::kind::data, 2 * std::size_t(B) * std::size_t(T_), "tokens"),
          acts(mem, c, B, T_), step(ops, mem, rules(B * T_), 1, {}, 0, 0) {
        const std::size_t n = tokens.size() / 2;
        std::vector<int> word(2 * n);
        for (std::size_t i = 0; i < 2 * n; ++i)
            word[i] = int(i * 2654435761u % unsigned(c.vocabulary));
        ops.copy_to_device(tokens.span(), std::span<const int>(word));
        const mpt::device_span<const int> at = tokens.span();
        batch = {at.first(n), at.subspan(n, n), B, T_, 0, 0, 0};
        std::vector<float> wide(P);
        mpt::initial_values(model.map, 1, 0, wide);
        ops.copy_to_device(master.span(), std::span<const float>(wide));
        ops.cast(weights.span(), master.span());
        ops.fill(m.span(), 0.0f), ops.fill(v.span(), 0.0f);
        const auto mine = strategy.mine(weights.span());
        owned = {mpt::master_of(master.span(), mine), m.span(), v.span(), mine, {}};
        queue.wait();
    }

    /// Behind what is in the stream; what is put there afterwards comes behind it.
    void run(cudaStream_t s) {
        queue.put(before, s);
        queue.await(before, queue.work);
        whole.run(queue.work, [&] { work(); });
        step.tell(0);
        queue.put(after, queue.work);
        queue.await(after, s);
    }
    double loss() { return step.told(0).loss; } // of the newest step; waits for it

private:
    static mpt::step_rules rules(int tokens) {
        mpt::step_rules r;
        r.rate.rate = 1e-5, r.max_norm = 1, r.tokens = tokens;
        return r;
    }
    void work() {
        step.begin();
        ops.places = step.places(0);
        model.forward(strategy, weights.span(), batch, acts);
        mpt::gradients<T> g{grads.span(), {}};
        model.backward(strategy, weights.span(), batch, acts, 0, g);
        ops.places = {};
        const auto found = strategy.finish(g);
        step.inspect(found);
        step.decide();
        step.adamw(model.map, owned, found);
        step.end();
    }

    mpt::device_queue queue;
    mpt::memory mem{0, mpt::device_memory(), mpt::pinned_memory()};
    Ops ops;
    mpt::gpt<T, Ops> model;
    mpt::one_rank<T, Ops> strategy;
    std::size_t P;
    mpt::buffer<T> weights, grads;
    mpt::buffer<float> master, m, v;
    mpt::buffer<int> tokens;
    mpt::gpt_acts<T> acts;
    mpt::device_step step;
    mpt::optimizer_state<T> owned;
    mpt::batch batch;
    mpt::kernels::recorded_work whole;
    mpt::mark before, after;
};

inline void bench_step(table& table, const gpu& g, const options& o) {
    const char *of_rate = "GPT-2 124M step, bf16, of cuBLAS's rate",
               *by_kernels = "GPT-2 124M step, products by kernels";
    if (!table.wants(of_rate) && !table.wants(by_kernels)) return;
    mpt::gpt_config c{12, 12, 12, 768, 1024, 50304};
    if (o.quick) c = {1, 2, 2, 32, 16, 256};
    const int B = o.size(8, 2), T = o.size(1024, 16);
    gpu_step<mpt::cublas_ops> step(c, B, T);
    const side ours{"", 1e-3 * B * T, [&] { step.run(g.stream); }};
    ours.run();
    const double loss = step.loss();

    // The same step by the other list: the same loss, but for the rounding of activations. The loss
    // of one token is off by some 5 roundings of 2^-9, here and there; their mean by less.
    {
        gpu_step<mpt::kernel_ops> other(c, B, T);
        other.run(g.stream);
        look(of_rate, {float(other.loss())}, 0, 0.01, [&](std::size_t) { return loss; });
        if (table.wants(by_kernels))
            table.compare(by_kernels, "K tokens/s", 0,
                          {"", ours.work, [&] { other.run(g.stream); }},
                          {"products by cuBLAS", ours.work, ours.run});
    }
    if (!table.wants(of_rate)) return;
    const int n = o.size(4096, 72);
    array<__nv_bfloat16> a(size_t(n) * size_t(n), -1, 1), b(a.size(), -1, 1), product(a.size());
    mpt::kernels::matmul_args<__nv_bfloat16> x;
    x.c = product.data(), x.a = a.data(), x.b = b.data(), x.m = x.n = x.k = n;
    // Products of linear layers, 2 operations a weight and token forward and twice that backward,
    // and of attention: of the half of the square that is seen, as above.
    const double C = c.channels, L = c.layers, weights = L * 12 * C * C + c.vocabulary * C;
    const double work = 1e-12 * double(B) * T * (6 * weights + 6 * L * C * T);
    table.compare(of_rate, "TFLOP/s", 0.35, {"", work, ours.run},
                  {"cuBLAS, bf16, " + std::to_string(n) + " cubed",
                   2e-12 * double(n) * double(n) * double(n), [&] { blas_matmul(g, x); }});
}

} // namespace bench
