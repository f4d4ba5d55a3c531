// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

using variables = std::map<std::string, std::string>;

std::string said(const variables& v) {
    std::string text;
    for (const auto& [name, value] : v) text += name + "=" + value + " ";
    return text.empty() ? "no variables" : text;
}
void stands(const variables& v, int rank, int size, const char* why) {
    const place p = find_place(v);
    equals("rank, " + said(v), p.rank, rank, why);
    equals("world size, " + said(v), p.world_size, size, why);
}
void refused(const variables& v, const std::string& name, const char* why) {
    refuses(said(v), [&] { find_place(v); }, name, why);
}
std::string number(int n) { return std::to_string(n); }

} // namespace

PART("a pair says it, none means alone", 3) {
    stands({}, 0, 1, "nobody has started others");
    stands({{"HOME", "/root"}, {"MASTER_PORT", "29500"}}, 0, 1, "none of these is a rank");
    for (int round = 0; round < 20; ++round) {
        const int size = any().between(1, 1000), rank = any().between(0, size - 1);
        stands({{"RANK", number(rank)}, {"WORLD_SIZE", number(size)}}, rank, size, "torchrun's");
        stands({{"SLURM_PROCID", number(rank)}, {"SLURM_NTASKS", number(size)}}, rank, size,
               "Slurm's");
    }
    stands({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, "one of one");
}
PART("RANK and WORLD_SIZE come first", 1) {
    stands({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}, 5, 8,
           "torchrun was started by Slurm, a task a node: Slurm counts nodes");
}
PART("half a pair is refused", 2) {
    refused({{"RANK", "1"}}, "WORLD_SIZE", "rank 1 of how many?");
    refused({{"WORLD_SIZE", "4"}}, "RANK", "four processes would all be rank 0");
    refused({{"SLURM_NTASKS", "4"}}, "SLURM_PROCID", "four processes would all be rank 0");
    refused({{"SLURM_PROCID", "3"}}, "SLURM_NTASKS", "rank 3 of how many?");
}
PART("a number is digits, and a rank is below the world size", 2) {
    for (const char* text : {"", "x", "3x", "-1", "1.5", " 1", "99999999999"}) {
        refused({{"RANK", text}, {"WORLD_SIZE", "4"}}, "RANK", "this is no rank");
        refused({{"RANK", "0"}, {"WORLD_SIZE", text}}, "WORLD_SIZE", "this is no size");
    }
    refused({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK", "ranks begin at 0: the last is 3");
    refused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE", "nobody is in a world of 0");
}
