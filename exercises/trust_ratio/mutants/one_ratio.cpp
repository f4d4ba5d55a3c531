// SPDX-License-Identifier: MIT
// mutant: one ratio for everything
// fails: each tensor by its own lengths
//< ratio
        double pp = 0, uu = 0;
        for (std::size_t i = 0; i < p.size(); ++i) {
            pp += double(p[i]) * double(p[i]);
            uu += double(u[i]) * double(u[i]);
        }
        const double ratio = pp > 0 && uu > 0 ? std::sqrt(pp) / std::sqrt(uu) : 1;
        for (std::size_t i = begin; i < end; ++i)
            p[i] = float(double(p[i]) - rate * ratio * double(u[i]));
        ratios.push_back(ratio);
