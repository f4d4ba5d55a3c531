// SPDX-License-Identifier: MIT
// mutant: the factor is applied to the direction
// fails: factor unscales what m and v see
//< step
        const double x = double(g[i]);
        m[i] = float(rule.beta1 * double(m[i]) + (1 - rule.beta1) * x);
        v[i] = float(rule.beta2 * double(v[i]) + (1 - rule.beta2) * x * x);
        const double root = std::sqrt(double(v[i]) / correct2);
        const double direction = double(m[i]) / correct1 / (root + rule.eps);
        p[i] = float(double(p[i]) * (1 - rate * rule.decay) - rate * factor * direction);
