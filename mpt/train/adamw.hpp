// SPDX-License-Identifier: MIT
/// @file adamw.hpp
/// Adam with decoupled weight decay.                                       tier 5, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp train/adam_moments.hpp train/update_pass.hpp
///
/// Idea     Each weight moves by about lr, whatever the size of its gradient: m remembers its mean,
///          v its mean square. Decay pulls the weight towards 0 apart from both.
/// Formula  g' = factor g;  m += (1-b1)(g' - m);  v += (1-b2)(g'^2 - v);  t = applied steps, from 1
///          p -= lr decay p + lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps);  weights = round(p)
/// Costs    traffic: 28 bytes a parameter = 3 * 8 (p, m, v) + 4 (fp32 g, or 16-bit g and weights).
///          memory: 8 bytes a parameter = m and v
/// Breaks   decay as part of the gradient: that is adam.hpp, another optimizer
/// Source   Loshchilov and Hutter 2019, arXiv:1711.05101; the defaults are PyTorch's
/// See      loss_scale.hpp (whether to step at all), clip.hpp (factor), tests/train/adamw_test.cpp
#pragma once
#include "mpt/nn/cpu.hpp"             // cpu
#include "mpt/nn/params.hpp"          // pieces, layout
#include "mpt/nn/strategy.hpp"        // owned_gradients
#include "mpt/train/adam_moments.hpp" // update_moments, directions
#include "mpt/train/update_pass.hpp"  // for_chunks, store

#include <cstddef>
#include <type_traits>

namespace mpt {

template <class Machine>
concept no_cpu = !std::is_convertible_v<const Machine&, const cpu&>;

template <class T>
using adamw_state = optimizer_state<T>; // with master, m, v and weights

namespace adamw_parts {

template <class W>
void move(W* MPT_RESTRICT p, const W* MPT_RESTRICT direction, std::size_t n, W rate, W decay) {
    for (std::size_t i = 0; i < n; ++i) p[i] -= decay * p[i] + rate * direction[i];
}

} // namespace adamw_parts

struct adamw {
    double beta1 = 0.9;         // how much m keeps of itself
    double beta2 = 0.999;       // how much v keeps of itself
    double eps = 1e-8;          // keeps a weight without gradient from moving by 0/0
    double weight_decay = 0.01; // for the tensors that decay
    long applied = 0;           // t: steps taken; skipped ones do not count

    int moments() const { return 2; } // numbers a weight: m and v

    /// One step. `grads`: pieces of T or, summed over a window, of float, still scaled; `factor`
    /// unscales and clips them: clip_factor(norm / S, max_norm) / S. Throws, with nothing changed,
    /// where sizes disagree or a number is not finite. The same bits for any number of threads.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const pieces<G>& grads, double factor, double lr) {
        using W = wide_t<T>;
        check_step("adamw", map, own, grads, factor, lr, 2);
        check_adam("adamw", *this);
        ++applied;
        const auto numbers = numbers_of<W>(*this, factor, lr, applied);
        const W decay = W(lr * weight_decay);
        for_chunks(on, map, own, grads, [&](const chunk<T>& c) {
            W direction[chunk<T>::most];
            update_moments(c.m, c.v, c.g, c.n, numbers);
            directions(direction, c.m, c.v, c.n, numbers);
            adamw_parts::move(c.p, direction, c.n, numbers.rate, c.decays ? decay : W(0));
            store(own, c, applied);
        });
    }

    template <class T>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        grads.visit([&](const auto& parts) { step(on, map, own, parts, factor, lr); });
    }

    /// On a machine that is no CPU: the same bits, by the adamw_update() that comes with its
    /// operations (kernel_pass.hpp).
    template <no_cpu Machine, class T>
    void step(const Machine& on, const layout& map, const optimizer_state<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        grads.visit([&](const auto& g) { check_step("adamw", map, own, g, factor, lr, 2); });
        check_adam("adamw", *this);
        ++applied;
        adamw_update(on, map, own, grads, numbers_of<float>(*this, factor, lr, applied),
                     float(lr * weight_decay), applied);
    }
};

} // namespace mpt
