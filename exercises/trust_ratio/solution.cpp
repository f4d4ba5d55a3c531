// SPDX-License-Identifier: MIT
// LAMB's trust ratio: chapter 8.
//
// Adam's direction u has about the same length whatever the weights' is. With a large rate that
// tears small tensors apart and hardly moves large ones. LAMB scales u, tensor by tensor, to the
// length of the weights, so a step changes each tensor by `rate` of itself. A tensor of zeros
// could never leave zero that way: its ratio is 1.
#include "exercise.hpp"

#include <cmath>

std::vector<double> lamb_step(std::span<float> p, std::span<const float> u,
                              std::span<const std::size_t> ends, double rate) {
    std::vector<double> ratios;
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
        //< ratio: the two lengths, the ratio, the step, about 8 lines
        double pp = 0, uu = 0;
        for (std::size_t i = begin; i < end; ++i) {
            pp += double(p[i]) * double(p[i]);
            uu += double(u[i]) * double(u[i]);
        }
        const double ratio = pp > 0 && uu > 0 ? std::sqrt(pp) / std::sqrt(uu) : 1;
        for (std::size_t i = begin; i < end; ++i)
            p[i] = float(double(p[i]) - rate * ratio * double(u[i]));
        ratios.push_back(ratio);
        //> throw exercise::todo("ratio");
        begin = end;
    }
    return ratios;
}
