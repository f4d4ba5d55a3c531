// SPDX-License-Identifier: MIT
// mutant: the norm is taken of scaled gradients
// fails: the step does not depend on the scale
//< step
    const double norm = std::sqrt(squares);
    if (!finite) return {false, norm};
    const double clip = std::min(1.0, max_norm / (norm + 1e-6));
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * float(clip * grads[i] / scale);
    return {true, norm};
