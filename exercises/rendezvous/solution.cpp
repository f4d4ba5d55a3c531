// SPDX-License-Identifier: MIT
// What a launcher tells its processes: chapter 20.
//
// torchrun and shell loops set RANK and WORLD_SIZE; Slurm sets SLURM_PROCID and SLURM_NTASKS.
// Where both are set RANK and WORLD_SIZE hold. Without any of them a process is alone: rank 0 of 1.
// Half a pair is an error that names the variable that is missing: a job in which every process
// takes itself for rank 0 of 1 trains N models and writes one checkpoint N times. A number is
// digits and nothing else, and a rank is below the world size; what is not is an error that names
// the variable.
#include "exercise.hpp"

#include <charconv>
#include <cstdlib>
#include <stdexcept>

int whole_number(const std::string& name, const std::string& text) {
    //< number: digits from beginning to end, about 5 lines
    int n = -1;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, n);
    if (read.ec != std::errc() || read.ptr != end || n < 0)
        throw std::runtime_error(name + "=" + text + ": wanted a whole number");
    return n;
    //> (void)name;
    //> return std::atoi(text.c_str());
}

place find_place(const std::map<std::string, std::string>& variables) {
    const std::string pairs[][2] = {{"RANK", "WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}};
    //< pairs: the first that is there, whole and in range, about 10 lines
    for (const auto& [rank, size] : pairs) {
        if (!variables.count(rank) && !variables.count(size)) continue;
        for (const std::string& name : {rank, size})
            if (!variables.count(name)) throw std::runtime_error(name + " is not set");
        const place p{whole_number(rank, variables.at(rank)),
                      whole_number(size, variables.at(size))};
        if (p.rank >= p.world_size)
            throw std::runtime_error(rank + " is not below " + size);
        return p;
    }
    //> (void)pairs;
    return {};
}
