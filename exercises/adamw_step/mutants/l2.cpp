// SPDX-License-Identifier: MIT
// mutant: decay goes through the moments
// fails: decay is of the weight, not of the gradient
//< step
        const double x = factor * double(g[i]) + rule.decay * double(p[i]);
        m[i] = float(rule.beta1 * double(m[i]) + (1 - rule.beta1) * x);
        v[i] = float(rule.beta2 * double(v[i]) + (1 - rule.beta2) * x * x);
        const double root = std::sqrt(double(v[i]) / correct2);
        const double direction = double(m[i]) / correct1 / (root + rule.eps);
        p[i] = float(double(p[i]) - rate * direction);
