// SPDX-License-Identifier: MIT
// look.hpp -- are results right? Asked before any time is taken: what is wrong is quickly done.
#pragma once
#include "mpt/base/error.hpp" // check

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace bench {

/// |got[i] - want(i)| <= share |want(i)| + least, for all i.
template <class Want>
void look(const std::string& row, const std::vector<float>& got, double share, double least,
          Want want) {
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double w = want(i);
        mpt::check(std::abs(double(got[i]) - w) <= share * std::abs(w) + least, row,
                   ": element ", i, " is ", got[i], ", wanted ", w,
                   ": the kernel is wrong, and its time says nothing");
    }
}

/// Root of the mean square of the differences, at most `share` of that of the numbers.
inline void alike(const std::string& row, const std::vector<float>& ours,
                  const std::vector<float>& theirs, double share) {
    double off = 0, all = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        const double d = double(ours[i]) - double(theirs[i]);
        off += d * d;
        all += double(theirs[i]) * double(theirs[i]);
    }
    mpt::check(off <= share * share * all, row, ": the two sides differ by ",
               std::sqrt(off / all), " of the numbers' size, wanted is at most ", share,
               ": one of them is wrong, and their times say nothing");
}

} // namespace bench
