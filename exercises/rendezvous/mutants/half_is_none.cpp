// SPDX-License-Identifier: MIT
// mutant: half a pair is no pair
// fails: half a pair is refused
//< pairs
    for (const auto& [rank, size] : pairs) {
        if (!variables.count(rank) || !variables.count(size)) continue;
        const place p{whole_number(rank, variables.at(rank)),
                      whole_number(size, variables.at(size))};
        if (p.rank >= p.world_size)
            throw std::runtime_error(rank + " is not below " + size);
        return p;
    }
