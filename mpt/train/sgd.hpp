// SPDX-License-Identifier: MIT
/// @file sgd.hpp
/// Stochastic gradient descent, with momentum if wanted.                   tier 5, needs:
/// base/error.hpp nn/cpu.hpp nn/params.hpp nn/strategy.hpp train/update_pass.hpp
///
/// Idea     Go down the gradient. With momentum go down a sum of gradients, each weighing mu times
///          as much as the one after it: where they agree the step becomes 1/(1-mu) times as long,
///          where they alternate it does not. Unlike Adam's, the step has the unit of the gradient.
/// Formula  g' = factor g + decay p;  m = mu m + g';  p -= lr m, or lr g' for mu = 0, or with
///          Nesterov's look ahead lr (g' + mu m);  weights = round(p)
/// Costs    memory: 4 bytes a parameter = m, or 0 for mu = 0.  traffic: 20 bytes = 2 * 8 + 4 (as
///          adamw.hpp), or 12
/// Breaks   m = mu m + (1 - mu) g' ("dampening") under the same lr: steps of 1/10 for mu = 0.9
/// Source   Sutskever et al. 2013, On the importance of initialization and momentum in deep
///          learning; the form is torch.optim.SGD's, dampening 0
/// See      adamw.hpp, tests/train/sgd_test.cpp, chapters/08_optimizers.cpp
#pragma once
#include "mpt/base/error.hpp"        // check
#include "mpt/nn/cpu.hpp"            // cpu
#include "mpt/nn/params.hpp"         // pieces, layout
#include "mpt/nn/strategy.hpp"       // owned_gradients
#include "mpt/train/update_pass.hpp" // for_chunks, with_decay, store

#include <cstddef>

namespace mpt {

namespace sgd_parts {

/// g becomes the direction. m + (g - (1-mu) m) and not mu m + g: 1 - fp32(.9) is off by 2.4e-7,
/// and so would be the sum of many equal gradients, g / (1-mu).
template <class W>
void momentum(W* MPT_RESTRICT g, W* MPT_RESTRICT m, std::size_t n, W mu, W lose, bool nesterov) {
    for (std::size_t i = 0; i < n; ++i) m[i] += g[i] - lose * m[i];
    for (std::size_t i = 0; i < n; ++i) g[i] = nesterov ? g[i] + mu * m[i] : m[i];
}

} // namespace sgd_parts

struct sgd {
    double momentum = 0.9;   // mu, 0 up to below 1
    bool nesterov = false;   // step from where the momentum leads
    double weight_decay = 0; // for the tensors that decay, as a part of the gradient
    long applied = 0;        // steps taken; skipped ones do not count

    int moments() const { return momentum > 0; } // numbers a weight: m, or none

    /// One step; arguments, errors and bits as adamw::step. own.v is empty, own.m too for mu = 0.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const pieces<G>& grads, double factor, double lr) {
        using W = wide_t<T>;
        check(momentum >= 0 && momentum < 1 && weight_decay >= 0, "sgd: momentum ", momentum,
              ", weight decay ", weight_decay,
              "; momentum lies in [0, 1), the decay is not negative");
        check(!nesterov || momentum > 0, "sgd: nesterov without momentum; set momentum");
        check_step("sgd", map, own, grads, factor, lr, moments());
        ++applied;
        const W rate = W(lr), mu = W(momentum), lose = W(1 - momentum);
        for_chunks(on, map, own, grads, [&](const chunk<T>& c) {
            W g[chunk<T>::most];
            with_decay(g, c.g, c.p, c.n, W(factor), W(c.decays ? weight_decay : 0));
            if (c.m) sgd_parts::momentum(g, c.m, c.n, mu, lose, nesterov);
            for (std::size_t i = 0; i < c.n; ++i) c.p[i] -= rate * g[i];
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
