// SPDX-License-Identifier: MIT
/// @file adam.hpp
/// Adam with decay as a part of the gradient (L2).                         tier 5, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp train/adam_moments.hpp train/update_pass.hpp
///
/// Idea     A loss with decay/2 p^2 added to it has the gradient g + decay p, and that goes through
///          m and v like any gradient. But Adam divides by the size of the gradient: a weight with
///          large gradients is hardly decayed. AdamW (adamw.hpp) was made to end that.
/// Formula  g' = factor g + decay p;  m += (1-b1)(g' - m);  v += (1-b2)(g'^2 - v)
///          p -= lr/(1-b1^t) m / (sqrt(v)/sqrt(1-b2^t) + eps);  weights = round(p)
/// Costs    those of adamw.hpp: 28 bytes of traffic, 8 of memory a parameter
/// Breaks   AdamW's settings taken over: the same decay is another strength here, for every weight
///          its own
/// Source   Kingma and Ba 2015, arXiv:1412.6980; Loshchilov and Hutter 2019, arXiv:1711.05101,
///          section 2 (why they differ); torch.optim.Adam
/// See      adamw.hpp, tests/train/adam_test.cpp, chapters/08_optimizers.cpp
#pragma once
#include "mpt/nn/cpu.hpp"             // cpu
#include "mpt/nn/params.hpp"          // pieces, layout
#include "mpt/nn/strategy.hpp"        // owned_gradients
#include "mpt/train/adam_moments.hpp" // update_moments, directions
#include "mpt/train/update_pass.hpp"  // for_chunks, with_decay, store

#include <cstddef>

namespace mpt {

struct adam {
    double beta1 = 0.9;      // how much m keeps of itself
    double beta2 = 0.999;    // how much v keeps of itself
    double eps = 1e-8;       // keeps a weight without gradient from moving by 0/0
    double weight_decay = 0; // for the tensors that decay; torch's default, 0
    long applied = 0;        // t: steps taken; skipped ones do not count

    int moments() const { return 2; } // numbers a weight: m and v

    /// One step; arguments, errors and bits as adamw::step.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const pieces<G>& grads, double factor, double lr) {
        using W = wide_t<T>;
        check_step("adam", map, own, grads, factor, lr, 2);
        check_adam("adam", *this);
        ++applied;
        const auto numbers = numbers_of<W>(*this, 1, lr, applied);
        for_chunks(on, map, own, grads, [&](const chunk<T>& c) {
            W g[chunk<T>::most], direction[chunk<T>::most];
            with_decay(g, c.g, c.p, c.n, W(factor), W(c.decays ? weight_decay : 0));
            update_moments(c.m, c.v, g, c.n, numbers);
            directions(direction, c.m, c.v, c.n, numbers);
            for (std::size_t i = 0; i < c.n; ++i) c.p[i] -= numbers.rate * direction[i];
            store(own, c, applied);
        });
    }

    template <class T>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        grads.visit([&](const auto& parts) { step(on, map, own, parts, factor, lr); });
    }
};

} // namespace mpt
