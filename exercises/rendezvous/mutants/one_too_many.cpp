// SPDX-License-Identifier: MIT
// mutant: rank 4 of 4
// fails: a number is digits, and a rank is below the world size
//< pairs
    for (const auto& [rank, size] : pairs) {
        if (!variables.count(rank) && !variables.count(size)) continue;
        for (const std::string& name : {rank, size})
            if (!variables.count(name)) throw std::runtime_error(name + " is not set");
        const place p{whole_number(rank, variables.at(rank)),
                      whole_number(size, variables.at(size))};
        if (p.rank > p.world_size)
            throw std::runtime_error(rank + " is not below " + size);
        return p;
    }
