// SPDX-License-Identifier: MIT
// mutant: codes are cut off, not rounded
// fails: your block size
//< quantize
        float most = 0;
        for (std::size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
        absmax[b] = most;
        for (std::size_t i = begin; i < end; ++i)
            codes[i] = most == 0 ? 0 : std::int8_t(127 * double(x[i]) / double(most));
