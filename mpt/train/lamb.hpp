// SPDX-License-Identifier: MIT
/// @file lamb.hpp
/// Adam whose every tensor moves by the same share of its length.          tier 5, needs:
/// nn/cpu.hpp nn/params.hpp nn/strategy.hpp train/adam_moments.hpp train/update_pass.hpp
///
/// Idea     A rate that suits one tensor tears another apart, the more so the larger batch and rate
///          are. LAMB scales Adam's direction, tensor by tensor, to the length of the weights: a
///          step of lr changes each tensor by lr of itself.
/// Formula  m, v as Adam's;  u = m / (1-b1^t) / (sqrt(v)/sqrt(1-b2^t) + eps) + decay p
///          ratio = |p| / |u| per tensor, 1 where either is 0;  p -= lr ratio u
/// Costs    memory: 8 bytes a parameter = m and v.  traffic: two passes, since the ratio is known
///          after the first: 40 bytes = 20 + 2 (g) and 16 + 2 (weights)
/// Breaks   one ratio for the whole buffer; a shard that divides by its own length alone: pass
///          `add`. Shards cut elsewhere may change the last bit of a sum, which is in fp64
/// Source   You et al. 2020, LAMB, arXiv:1904.00962, algorithm 2, with phi(x) = x; with correction
///          of m and v, as its versions 4 and 5 have it
/// See      adamw.hpp, tests/train/lamb_test.cpp, chapters/08_optimizers.cpp
#pragma once
#include "mpt/nn/cpu.hpp"             // cpu
#include "mpt/nn/params.hpp"          // pieces, layout
#include "mpt/nn/strategy.hpp"        // owned_gradients
#include "mpt/train/adam_moments.hpp" // update_moments, directions
#include "mpt/train/update_pass.hpp"  // for_chunks, store

#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace mpt {

namespace lamb_parts {

/// u of n weights, from their new moments.
template <class W>
void update(W* MPT_RESTRICT u, const W* MPT_RESTRICT p, const W* MPT_RESTRICT m,
            const W* MPT_RESTRICT v, std::size_t n, const adam_numbers<W>& c, W decay) {
    const W scale = c.rate; // 1 / (1-b1^t)
    directions(u, m, v, n, c);
    for (std::size_t i = 0; i < n; ++i) u[i] = scale * u[i] + decay * p[i];
}

/// The sum of n squares in fp64, eight sums side by side: the same order with any instructions.
template <class W>
double squares(const W* x, std::size_t n) {
    double s[8] = {};
    for (std::size_t i = 0; i < n / 8 * 8; i += 8)
        for (std::size_t k = 0; k < 8; ++k) s[k] += double(x[i + k]) * double(x[i + k]);
    for (std::size_t i = n / 8 * 8; i < n; ++i) s[i % 8] += double(x[i]) * double(x[i]);
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

struct lengths { // squared, of the part of a tensor that lies in one block
    std::size_t tensor;
    double p, u;
};

} // namespace lamb_parts

struct lamb {
    double beta1 = 0.9;              // how much m keeps of itself
    double beta2 = 0.999;            // how much v keeps of itself
    double eps = 1e-6;               // keeps a weight without gradient from moving by 0/0
    double weight_decay = 0.01;      // for the tensors that decay
    long applied = 0;                // t: steps taken; skipped ones do not count
    std::vector<double> ratios = {}; // of the last step, one a tensor

    int moments() const { return 2; } // numbers a weight: m and v

    /// One step; arguments, errors and bits as adamw::step. add(span of double) replaces 2 sums a
    /// tensor, over what this rank owns, by those over all ranks; called once, by every rank.
    template <class T, class G, class Add>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const pieces<G>& grads, double factor, double lr, Add add) {
        using W = wide_t<T>;
        check_step("lamb", map, own, grads, factor, lr, 2);
        check_adam("lamb", *this);
        ++applied;
        const auto numbers = numbers_of<W>(*this, factor, 1, applied);
        const auto decay = [&](const chunk<T>& c) { return W(c.decays ? weight_decay : 0); };

        const std::vector<block> cut = blocks(own.weights);
        std::vector<std::vector<lamb_parts::lengths>> parts(cut.size());
        for_chunks(on, map, own, grads, [&](const chunk<T>& c) {
            W u[chunk<T>::most];
            update_moments(c.m, c.v, c.g, c.n, numbers);
            lamb_parts::update(u, c.p, c.m, c.v, c.n, numbers, decay(c));
            auto& of_block = parts[c.task];
            if (of_block.empty() || of_block.back().tensor != c.tensor)
                of_block.push_back({c.tensor, 0, 0});
            of_block.back().p += lamb_parts::squares(c.p, c.n);
            of_block.back().u += lamb_parts::squares(u, c.n);
        });

        // |p|^2 and |u|^2 of each tensor: the blocks of a shard are added first, then the shards,
        // so that the sum is the same where ranks own one shard each and where each owns all.
        std::vector<double> sums(2 * map.tensors.size()), shard(sums.size());
        for (std::size_t i = 0; i < cut.size(); ++i) {
            for (const auto& part : parts[i]) {
                shard[2 * part.tensor] += part.p;
                shard[2 * part.tensor + 1] += part.u;
            }
            if (i + 1 < cut.size() && cut[i + 1].piece == cut[i].piece) continue;
            for (std::size_t k = 0; k < sums.size(); ++k)
                sums[k] += std::exchange(shard[k], 0.0);
        }
        add(std::span<double>(sums));
        ratios.assign(map.tensors.size(), 1.0);
        for (std::size_t t = 0; t < ratios.size(); ++t)
            if (sums[2 * t] > 0 && sums[2 * t + 1] > 0)
                ratios[t] = std::sqrt(sums[2 * t]) / std::sqrt(sums[2 * t + 1]);

        for_chunks(on, map, own, pieces<G>(), [&](const chunk<T>& c) {
            W u[chunk<T>::most];
            lamb_parts::update(u, c.p, c.m, c.v, c.n, numbers, decay(c)); // the same bits again
            const W rate = W(lr * ratios[c.tensor]);
            for (std::size_t i = 0; i < c.n; ++i) c.p[i] -= rate * u[i];
            store(own, c, applied);
        });
    }

    /// ... on one rank.
    template <class T, class G>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const pieces<G>& grads, double factor, double lr) {
        step(on, map, own, grads, factor, lr, [](std::span<double>) {});
    }

    template <class T, class Add>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const owned_gradients<T>& grads, double factor, double lr, Add add) {
        grads.visit([&](const auto& parts) { step(on, map, own, parts, factor, lr, add); });
    }
    template <class T>
    void step(const cpu& on, const layout& map, const optimizer_state<T>& own,
              const owned_gradients<T>& grads, double factor, double lr) {
        step(on, map, own, grads, factor, lr, [](std::span<double>) {});
    }
};

} // namespace mpt
