// SPDX-License-Identifier: MIT
/// @file optimizer_rig.hpp
/// What the tests of the optimizers share: a learner, and fp64 models of every formula, written an
/// element at a time, as algorithm and not as loop.
#pragma once
#include "mpt/train/adam.hpp"
#include "mpt/train/adamw.hpp"
#include "mpt/train/lamb.hpp"
#include "mpt/train/master_weights.hpp"
#include "mpt/train/sgd.hpp"
#include "rig.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace rig {

/// Tensors that decay and tensors that do not, over three units: sizes 1, prime, and one that
/// crosses the border of a block (16384 elements from the beginning of its unit's piece).
inline mpt::layout tensors(std::size_t large = 16381) {
    mpt::layout map;
    map.add_unit("a");
    map.add("a.w", {7, 3}, 1);
    map.add("a.b", {5}, 0);
    map.add("a.one", {1, 1}, 1);
    map.add_unit("b");
    map.add("b.w", {large, 1}, 1);
    map.add("b.gain", {13}, 0, 1);
    map.add("b.w2", {2, 65}, 1);
    map.add_unit("c");
    map.add("c.b", {1}, 0);
    return map;
}

/// All that a rank holds, and one step on it.
template <class T, class Optimizer>
struct learner {
    using W = mpt::wide_t<T>;
    learner(mpt::layout l, Optimizer o, int threads = 2, std::optional<std::uint64_t> seed = {})
        : map(std::move(l)), machine(threads), opt(std::move(o)), rounding_seed(seed),
          weights(numbers<T>(1, map.size(), 1)), master(seed ? 0 : mpt::master_size<T>(map.size())),
          m(opt.moments() > 0 ? map.size() : 0), v(opt.moments() > 1 ? map.size() : 0) {
        for (std::size_t i = 0; i < master.size(); ++i) master[i] = mpt::widen(weights[i]);
    }
    mpt::optimizer_state<T> own() {
        const mpt::pieces<T> mine = by_unit<T>(map, weights.data());
        if (rounding_seed) return {{}, span(m), span(v), mine, rounding_seed};
        return {mpt::master_of<T>(span(master), mine), span(m), span(v), mine};
    }
    template <class G>
    void step(const std::vector<G>& g, double factor, double lr) {
        opt.step(machine.on, map, own(), by_unit<const G>(map, g.data()), factor, lr);
    }
    W p(std::size_t i) const { return master.empty() ? W(mpt::widen(weights[i])) : master[i]; }
    std::uint64_t state() const {
        return digest(weights, digest(master, digest(m, digest(v)))) ^ std::uint64_t(opt.applied);
    }

    mpt::layout map;
    rig::machine machine;
    Optimizer opt;
    std::optional<std::uint64_t> rounding_seed; // given: weights without a master
    std::vector<T> weights;
    std::vector<W> master, m, v;
};

/// p, m, v in fp64.
struct model {
    std::vector<double> p, m, v;
    long t = 0;
    bool decay_last = false; // sabotage: AdamW's decay after the step instead of before it
    bool one_ratio = false;  // sabotage: LAMB's ratio over the whole buffer
    double dampening = 0;    // sabotage: of SGD's momentum

    template <class Learner>
    explicit model(const Learner& l) : m(l.map.size()), v(l.map.size()) {
        for (std::size_t i = 0; i < l.map.size(); ++i) p.push_back(double(l.p(i)));
    }

    void step(const mpt::adamw& o, const mpt::layout& map, const std::vector<double>& g,
              double lr) {
        each(
            map,
            [&](std::size_t i, double decay) {
                if (!decay_last) p[i] *= 1 - lr * decay;
                p[i] -= lr * adam_direction(o, i, g[i]);
                if (decay_last) p[i] *= 1 - lr * decay;
            },
            o.weight_decay);
    }
    void step(const mpt::adam& o, const mpt::layout& map, const std::vector<double>& g, double lr) {
        each(
            map,
            [&](std::size_t i, double decay) {
                p[i] -= lr * adam_direction(o, i, g[i] + decay * p[i]);
            },
            o.weight_decay);
    }
    void step(const mpt::sgd& o, const mpt::layout& map, const std::vector<double>& g, double lr) {
        each(
            map,
            [&](std::size_t i, double decay) {
                const double d = g[i] + decay * p[i];
                m[i] = o.momentum * m[i] + (1 - dampening) * d;
                p[i] -= lr * (o.momentum == 0 ? d : o.nesterov ? d + o.momentum * m[i] : m[i]);
            },
            o.weight_decay);
    }
    void step(const mpt::lamb& o, const mpt::layout& map, const std::vector<double>& g, double lr) {
        std::vector<double> u(p.size());
        each(
            map,
            [&](std::size_t i, double decay) { u[i] = adam_direction(o, i, g[i]) + decay * p[i]; },
            o.weight_decay);
        const auto move = [&](std::size_t begin, std::size_t end) {
            double pp = 0, uu = 0;
            for (std::size_t i = begin; i < end; ++i) pp += p[i] * p[i], uu += u[i] * u[i];
            const double ratio = pp > 0 && uu > 0 ? std::sqrt(pp / uu) : 1;
            for (std::size_t i = begin; i < end; ++i) p[i] -= lr * ratio * u[i];
        };
        if (one_ratio) return move(0, p.size());
        for (const mpt::tensor_info& x : map.tensors) move(x.begin, x.begin + x.size);
    }

private:
    template <class F>
    void each(const mpt::layout& map, F f, double decay) {
        ++t;
        share1 = share2 = -1;
        for (const mpt::tensor_info& x : map.tensors)
            for (std::size_t i = x.begin; i < x.begin + x.size; ++i) f(i, x.decays ? decay : 0);
    }
    template <class Adam>
    double adam_direction(const Adam& o, std::size_t i, double g) {
        if (share1 < 0) share1 = 1 - std::pow(o.beta1, t), share2 = 1 - std::pow(o.beta2, t);
        m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
        v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
        return m[i] / share1 / (std::sqrt(v[i] / share2) + o.eps);
    }
    double share1 = -1, share2 = -1; // 1 - beta^t
};

/// |p - model| / |model| over all elements.
template <class Learner>
double apart(const Learner& l, const model& q) {
    double off = 0, length = 0;
    for (std::size_t i = 0; i < q.p.size(); ++i) {
        const double d = double(l.p(i)) - q.p[i];
        off += d * d;
        length += q.p[i] * q.p[i];
    }
    return std::sqrt(off / length);
}

/// Gradients of step `step`, scaled by 1024: over six powers of ten, some with a mean.
template <class G>
std::vector<G> gradients(std::size_t n, std::uint32_t step) {
    std::vector<G> g = numbers<G>(100 + step, n, 50);
    for (std::size_t i = 0; i < n; i += 3)
        g[i] = mpt::narrow<G>(mpt::wide_t<G>(mpt::widen(g[i]) + mpt::wide_t<G>(float(i % 7) - 3)));
    return g;
}

/// How far a learner in T on gradients in G is from its fp64 model after `steps` steps. lr_off: a
/// relative error put into the rate of the one only; spoil(model) is called before the first step.
template <class T, class G, class Optimizer, class Rate, class Spoil>
double distance(Optimizer o, long steps, Rate lr, double lr_off, Spoil spoil) {
    learner<T, Optimizer> l(tensors(), o);
    model q(l);
    spoil(q);
    constexpr std::uint32_t different = 16; // then the same gradients again
    std::vector<std::vector<G>> all;
    for (std::uint32_t k = 0; k < different; ++k) all.push_back(gradients<G>(l.map.size(), k));
    std::vector<double> wide(l.map.size());
    for (long step = 0; step < steps; ++step) {
        const std::vector<G>& g = all[std::size_t(step * 7 % different)];
        for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = double(mpt::widen(g[i])) / 1024;
        l.step(g, 1.0 / 1024, lr(step) * (1 + lr_off));
        q.step(o, l.map, wide, lr(step));
    }
    return apart(l, q);
}

} // namespace rig
