// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

// In fp64 from beginning to end.
struct exact {
    std::vector<double> p, m, v;
    void step(const adamw& r, std::span<const float> g, double factor, double rate, long t) {
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double x = factor * double(g[i]);
            m[i] = r.beta1 * m[i] + (1 - r.beta1) * x;
            v[i] = r.beta2 * v[i] + (1 - r.beta2) * x * x;
            const double m1 = m[i] / (1 - std::pow(r.beta1, double(t)));
            const double v1 = v[i] / (1 - std::pow(r.beta2, double(t)));
            p[i] -= rate * r.decay * p[i];
            p[i] -= rate * m1 / (std::sqrt(v1) + r.eps);
        }
    }
};

void steps(std::size_t n, int count, double decay, double factor) {
    adamw rule;
    rule.decay = decay;
    std::vector<float> p = any().list(n), m(n), v(n);
    exact want{{p.begin(), p.end()}, std::vector<double>(n), std::vector<double>(n)};
    for (int t = 1; t <= count; ++t) {
        const std::vector<float> g = any().list(n, float(1 / factor));
        step(rule, p, m, v, g, factor, 1e-2);
        want.step(rule, g, factor, 1e-2, t);
        equals("applied steps", rule.applied, long(t), "the step counts itself");
        for (std::size_t i = 0; i < n; ++i) {
            // t roundings each of m, v and p, through a quotient that is at most about 10
            const double most = (t + 4) * 0x1p-22 * (std::abs(want.p[i]) + 0.1);
            within(mpt::join("p after step ", t, ", decay ", decay, ", factor ", factor), p[i],
                   want.p[i], most, "the roundings of fp32 moments and weights",
                   "see the four lines of the statement", mpt::join("element ", i, " of ", n));
        }
    }
}

} // namespace

PART("the first step has the length of the rate", 2) {
    adamw rule;
    rule.decay = 0;
    std::vector<float> p{1, 1, 1}, m(3), v(3);
    const std::vector<float> g{0.1f, -20.0f, 1e-3f};
    step(rule, p, m, v, g, 1, 0.25);
    for (std::size_t i = 0; i < 3; ++i)
        within("p after the first step of 0.25 from 1", p[i], g[i] > 0 ? 0.75 : 1.25, 1e-5,
               "eps beside the gradient",
               "m' = g and v' = g^2: the step is the rate, whatever g is");
}
PART("many steps", 4) {
    for (const std::size_t n : {1u, 7u, 64u}) steps(n, 25, 0, 1);
}
PART("decay is of the weight, not of the gradient", 2) { steps(33, 10, 0.1, 1); }
PART("factor unscales what m and v see", 1) { steps(33, 10, 0.01, 1.0 / 65536); }
PART("a gradient of 0", 1) {
    adamw rule;
    rule.decay = 0;
    std::vector<float> p{1}, m(1), v(1);
    step(rule, p, m, v, std::vector<float>{0}, 1, 0.1);
    equals("p after a step without gradient", p[0], 1.0f,
           "0 / (0 + eps) is 0: that is what eps is for");
}
