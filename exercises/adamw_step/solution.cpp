// SPDX-License-Identifier: MIT
// AdamW: chapter 8.
//
//   g  = factor g                        unscaled and clipped, on the way
//   m  = beta1 m + (1 - beta1) g         v = beta2 v + (1 - beta2) g^2
//   p -= rate decay p                    decay of the weight itself: not through m and v
//   p -= rate m' / (sqrt(v') + eps)      m' = m / (1 - beta1^t), v' = v / (1 - beta2^t)
// t counts applied steps and is 1 in the first. Without the corrections the first steps would be
// far too short: m begins at 0.
#include "exercise.hpp"

#include <cmath>

void step(adamw& rule, std::span<float> p, std::span<float> m, std::span<float> v,
          std::span<const float> g, double factor, double rate) {
    ++rule.applied;
    const double correct1 = 1 - std::pow(rule.beta1, double(rule.applied));
    const double correct2 = 1 - std::pow(rule.beta2, double(rule.applied));
    for (std::size_t i = 0; i < p.size(); ++i) {
        //< step: the four lines above, about 6 lines
        const double x = factor * double(g[i]);
        m[i] = float(rule.beta1 * double(m[i]) + (1 - rule.beta1) * x);
        v[i] = float(rule.beta2 * double(v[i]) + (1 - rule.beta2) * x * x);
        const double direction =
            (double(m[i]) / correct1) / (std::sqrt(double(v[i]) / correct2) + rule.eps);
        p[i] = float(double(p[i]) * (1 - rate * rule.decay) - rate * direction);
        //> throw exercise::todo("step");
    }
    (void)correct1, (void)correct2;
}
