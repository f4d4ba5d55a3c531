// SPDX-License-Identifier: MIT
// mutant: a skipped step has written already
// fails: a step that is not finite changes nothing
//< step
    const double norm = std::sqrt(squares) / scale;
    const double clip = std::min(1.0, max_norm / (norm + 1e-6));
    const float factor = float(clip / scale);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * (factor * grads[i]);
    return {finite, norm};
