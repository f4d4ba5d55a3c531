// SPDX-License-Identifier: MIT
// mutant: absmax is the largest number, not the largest magnitude
// fails: your block size
//< quantize
        float most = 0;
        for (std::size_t i = begin; i < end; ++i) most = std::max(most, x[i]);
        absmax[b] = most;
        for (std::size_t i = begin; i < end; ++i)
            codes[i] =
                most == 0 ? 0 : std::int8_t(std::nearbyint(127 * double(x[i]) / double(most)));
