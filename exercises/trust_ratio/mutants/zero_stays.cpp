// SPDX-License-Identifier: MIT
// mutant: a tensor of zeros has a ratio of 0
// fails: tensors of zeros
//< ratio
        double pp = 0, uu = 0;
        for (std::size_t i = begin; i < end; ++i) {
            pp += double(p[i]) * double(p[i]);
            uu += double(u[i]) * double(u[i]);
        }
        const double ratio = uu > 0 ? std::sqrt(pp) / std::sqrt(uu) : 1;
        for (std::size_t i = begin; i < end; ++i)
            p[i] = float(double(p[i]) - rate * ratio * double(u[i]));
        ratios.push_back(ratio);
