// SPDX-License-Identifier: MIT
// mutant: m and v are not corrected
// fails: the first step has the length of the rate
//< step
        const double x = factor * double(g[i]);
        m[i] = float(rule.beta1 * double(m[i]) + (1 - rule.beta1) * x);
        v[i] = float(rule.beta2 * double(v[i]) + (1 - rule.beta2) * x * x);
        const double direction = double(m[i]) / (std::sqrt(double(v[i])) + rule.eps);
        p[i] = float(double(p[i]) * (1 - rate * rule.decay) - rate * direction);
