// SPDX-License-Identifier: MIT
// mutant: one absmax for everything
// fails: an outlier spoils its own block alone
//< quantize
        float most = 0;
        for (const float v : x) most = std::max(most, std::abs(v));
        absmax[b] = most;
        for (std::size_t i = begin; i < end; ++i)
            codes[i] =
                most == 0 ? 0 : std::int8_t(std::nearbyint(127 * double(x[i]) / double(most)));
