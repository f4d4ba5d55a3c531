// SPDX-License-Identifier: MIT
// A bug that was in many training loops: chapter 5.
//
// A user writes: "with mixed precision the loss falls for a while and then hardly at all; the lower
// the loss scale, the better." The step between the markers is theirs. It compiles, it never
// crashes, and with a scale of 1 it is right. Find what is wrong and mend it; there may be more
// than one thing.
#include "exercise.hpp"

#include <algorithm>
#include <cmath>

outcome step(std::span<float> w, std::span<const float> grads, float scale, double max_norm,
             float rate) {
    double squares = 0;
    bool finite = true;
    for (const float g : grads) {
        finite = finite && std::isfinite(g);
        squares += double(g) * double(g);
    }
    //< step: about 8 lines
    const double norm = std::sqrt(squares) / scale;
    if (!finite) return {false, norm};
    const double clip = std::min(1.0, max_norm / (norm + 1e-6));
    const float factor = float(clip / scale);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * (factor * grads[i]);
    return {true, norm};
    //> const double norm = std::sqrt(squares);
    //> const double clip = std::min(1.0, max_norm / (norm + 1e-6));
    //> for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * float(clip * grads[i] / scale);
    //> return {finite, norm};
}
