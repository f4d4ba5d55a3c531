// SPDX-License-Identifier: MIT
// mutant: the schedule counts attempts
// fails: skipped steps do not count
//< rates
    long attempted = 0;
    for (std::size_t i = 0; i < finite.size(); ++i) used.push_back(rate_of(s, attempted++));
