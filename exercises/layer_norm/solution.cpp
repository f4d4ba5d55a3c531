// SPDX-License-Identifier: MIT
// Layer norm in fp16: chapter 15.
//
// "Our norm gives zeros for a few rows, and NaN for others." fp16 ends at 65504: the square of 256
// is already too much. The code between the markers keeps its sums in the format of its input.
// Memory may be fp16; the arithmetic must not be. And the variance as mean of squares minus square
// of the mean loses everything where the mean is large. Mend both.
#include "exercise.hpp"

#include <cmath>

void normalise(std::span<mpt::fp16> y, std::span<const mpt::fp16> x, float eps) {
    const float n = float(x.size());
    //< norm: about 7 lines
    float mean = 0, variance = 0;
    for (const mpt::fp16 v : x) mean += float(v);
    mean /= n;
    for (const mpt::fp16 v : x) variance += (float(v) - mean) * (float(v) - mean);
    const float scale = 1 / std::sqrt(variance / n + eps);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = mpt::fp16((float(x[i]) - mean) * scale);
    //> mpt::fp16 sum(0.0f), squares(0.0f);
    //> for (const mpt::fp16 v : x) {
    //>     sum = mpt::fp16(float(sum) + float(v));
    //>     squares = mpt::fp16(float(squares) + float(mpt::fp16(float(v) * float(v))));
    //> }
    //> const float mean = float(sum) / n, variance = float(squares) / n - mean * mean;
    //> const float scale = 1 / std::sqrt(variance + eps);
    //> for (std::size_t i = 0; i < x.size(); ++i) y[i] = mpt::fp16((float(x[i]) - mean) * scale);
}
