// SPDX-License-Identifier: MIT
// Blocks of 8-bit numbers: chapter 10.
//
// A number becomes a code from -127 to 127, in steps of a 127th of the largest magnitude of its
// block. One outlier spoils a block and not the whole tensor: that is why there are blocks. The
// last block may be shorter; a block of zeros must not divide by 0. Yours have `block` numbers.
#include "exercise.hpp"

#include <algorithm>
#include <cmath>

void quantize(std::span<std::int8_t> codes, std::span<float> absmax, std::span<const float> x,
              int block) {
    const std::size_t size = std::size_t(block);
    for (std::size_t b = 0; b * size < x.size(); ++b) {
        const std::size_t begin = b * size, end = std::min(x.size(), begin + size);
        //< quantize: the block's absmax, then its codes, about 6 lines
        float most = 0;
        for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
        absmax[b] = most;
        for (std::size_t i = begin; i < end; ++i)
            codes[i] =
                most == 0 ? 0 : std::int8_t(std::nearbyint(127 * double(x[i]) / double(most)));
        //> throw exercise::todo("quantize");
    }
}

void restore(std::span<float> x, std::span<const std::int8_t> codes, std::span<const float> absmax,
             int block) {
    for (std::size_t i = 0; i < x.size(); ++i) {
        //< restore: about 2 lines
        x[i] = float(double(codes[i]) / 127 * double(absmax[i / std::size_t(block)]));
        //> throw exercise::todo("restore");
    }
}
