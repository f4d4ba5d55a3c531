// SPDX-License-Identifier: MIT
/// @file adam_moments.hpp
/// What Adam remembers of the gradients: their mean and their mean square. tier 5, needs:
/// base/error.hpp base/qualifiers.hpp
///
/// Idea     m and v are running means that begin at 0, so at first they are too small: by 1-b1^t
///          and 1-b2^t, which the step divides out. mean / root of the mean square has a size of
///          about 1 whatever the unit of the gradient: that is the direction in which AdamW, Adam
///          with L2 and LAMB go.
/// Formula  m += (1-b1)(g - m);  v += (1-b2)(g^2 - v);  t = applied steps, from 1
///          direction = m / (1-b1^t) / (sqrt(v)/sqrt(1-b2^t) + eps)
/// Costs    memory: 8 bytes a parameter = m and v in fp32
/// Breaks   eps = 1e-8 in fp16 is 0, and 0/0 a NaN: all is fp32 here.  v = b2 v + (1-b2) g^2 with
///          b2 in fp32: 1 - fp32(.999) is off by 1.3e-5, the form above by 5e-8.
///          |g| > 1.8e19: its square is infinite
/// Source   Kingma and Ba 2015, Adam, arXiv:1412.6980, algorithm 1
/// See      adamw.hpp, adam.hpp, lamb.hpp (who use it), tests/train/adamw_test.cpp
#pragma once
#include "mpt/base/error.hpp"      // check
#include "mpt/base/qualifiers.hpp" // MPT_RESTRICT

#include <cmath>
#include <cstddef>
#include <type_traits>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace mpt {

/// The numbers of one step, each rounded once from double.
template <class W>
struct adam_numbers {
    W factor;     // unscales and clips the gradients
    W keep1;      // 1 - beta1: the share of the new gradient in m
    W keep2;      // 1 - beta2
    W rate;       // lr / (1 - beta1^t)
    W correction; // 1 / sqrt(1 - beta2^t)
    W eps;
};

/// Of the t-th step, from 1, of an optimizer with fields beta1, beta2 and eps.
template <class W, class Adam>
adam_numbers<W> numbers_of(const Adam& a, double factor, double lr, long t) {
    return {W(factor),
            W(1 - a.beta1),
            W(1 - a.beta2),
            W(lr / (1 - std::pow(a.beta1, double(t)))),
            W(1 / std::sqrt(1 - std::pow(a.beta2, double(t)))),
            W(a.eps)};
}

/// to[i] = sqrt(x[i]), rounded once like any IEEE root. A plain loop is not vectorised: the
/// compiler must think of errno.
template <class W>
void roots(const W* x, W* to, std::size_t n) {
    std::size_t i = 0;
    if constexpr (std::is_same_v<W, float>) {
#if defined(__AVX__)
        for (; n - i >= 8; i += 8) _mm256_storeu_ps(to + i, _mm256_sqrt_ps(_mm256_loadu_ps(x + i)));
#elif defined(__SSE2__)
        for (; n - i >= 4; i += 4) _mm_storeu_ps(to + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
#endif
    }
    for (; i < n; ++i) to[i] = std::sqrt(x[i]);
}

/// The new moments of n weights from their gradients.
template <class W>
void update_moments(W* MPT_RESTRICT m, W* MPT_RESTRICT v, const W* MPT_RESTRICT g, std::size_t n,
                    const adam_numbers<W>& c) {
    const W factor = c.factor, keep1 = c.keep1, keep2 = c.keep2;
    for (std::size_t i = 0; i < n; ++i) {
        const W gi = factor * g[i];
        m[i] += keep1 * (gi - m[i]);
        v[i] += keep2 * (gi * gi - v[i]);
    }
}

/// to[i] = m / (sqrt(v) / sqrt(1-b2^t) + eps); times 1/(1-b1^t), which is in `rate`, the direction.
template <class W>
void directions(W* MPT_RESTRICT to, const W* MPT_RESTRICT m, const W* MPT_RESTRICT v, std::size_t n,
                const adam_numbers<W>& c) {
    const W correction = c.correction, eps = c.eps;
    roots(v, to, n);
    for (std::size_t i = 0; i < n; ++i) to[i] = m[i] / (to[i] * correction + eps);
}

/// Throws one line for values that make no Adam.
template <class Adam>
void check_adam(const char* who, const Adam& a) {
    check(a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1 && a.eps >= 0 &&
              a.weight_decay >= 0,
          who, ": beta1 ", a.beta1, ", beta2 ", a.beta2, ", eps ", a.eps, ", weight decay ",
          a.weight_decay, "; betas lie in [0, 1), the others are not negative");
}

} // namespace mpt
