// SPDX-License-Identifier: MIT
// mutant: launched in the order in which they fill
// fails: gradients that arrive in another order
//< ready
    for (std::size_t k = 0; k < plan_.size(); ++k)
        if (layer >= plan_[k].first && layer <= plan_[k].last && --missing_[k] == 0)
            launch_(plan_[k]);
