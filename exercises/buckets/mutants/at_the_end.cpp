// SPDX-License-Identifier: MIT
// mutant: all are launched when the last gradient is there
// fails: each leaves as soon as it is full
//< ready
    for (std::size_t k = 0; k < plan_.size(); ++k)
        if (layer >= plan_[k].first && layer <= plan_[k].last) --missing_[k];
    for (const int m : missing_)
        if (m > 0) return;
    while (next_ < plan_.size()) launch_(plan_[next_++]);
