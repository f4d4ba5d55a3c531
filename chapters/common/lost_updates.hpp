// SPDX-License-Identifier: MIT
// lost_updates.hpp -- updates that rounding undoes, counted by how small they are.
#pragma once
#include "mpt/base/error.hpp"     // join
#include "mpt/numeric/scalar.hpp" // format, widen

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

//! [count]
// Updates that AdamW asked for and those of them that rounding undid, by |weight / update|:
// below 2^p, below 2^(p+1), from there on; p: bits of T's significand, the hidden one included.
template <class T>
struct lost_updates {
    static constexpr long edge = 2L << mpt::format<T>::mantissa_bits; // 2^p
    long asked[3] = {}, lost[3] = {};

    void count(const std::vector<T>& before, const std::vector<float>& wanted,
               const std::vector<T>& after) {
        for (std::size_t i = 0; i < before.size(); ++i) {
            const double w = mpt::widen(before[i]), u = double(wanted[i]) - w;
            if (u == 0 || std::abs(w) < mpt::format<T>::min_normal) continue; // spaced otherwise
            const double ratio = std::abs(w / u);
            const int bin = ratio < edge ? 0 : ratio < 2 * edge ? 1 : 2;
            ++asked[bin];
            lost[bin] += mpt::widen(after[i]) == mpt::widen(before[i]);
        }
    }
    void print() const {
        std::printf("%-18s %12s %12s %8s   theory\n", "|weight / update|", "updates", "lost",
                    "share");
        const std::string names[3] = {mpt::join("below ", edge), mpt::join(edge, " to ", 2 * edge),
                                      mpt::join("from ", 2 * edge, " on")};
        const char* theory[3] = {"none", "depends on the significand", "all"};
        for (int i = 0; i < 3; ++i)
            std::printf("%-18s %12ld %12ld %7.1f%%   %s\n", names[i].c_str(), asked[i], lost[i],
                        100.0 * double(lost[i]) / double(std::max(1L, asked[i])), theory[i]);
    }
};
//! [count]
