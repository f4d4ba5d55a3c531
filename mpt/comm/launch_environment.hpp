// SPDX-License-Identifier: MIT
/// @file launch_environment.hpp
/// Which rank am I? Asked of whoever started this process.                 tier 2, needs:
/// base/error.hpp comm/launch_arguments.hpp comm/slurm_nodes.hpp
///
/// Idea     Every launcher tells its processes their place by variables of its own. They are asked
///          in a fixed order: arguments; RANK and WORLD_SIZE (torchrun, DeepSpeed, a shell loop);
///          Open MPI; PMI (MPICH, Intel MPI, Cray PALS); a step of Slurm; else one process. Two
///          that disagree are an error, except where one launcher was started by the other.
/// Breaks   SLURM_NTASKS inside a batch script: it says 16 where one process runs, which would wait
///          for 15 others for ever. Only a step (srun) of two tasks or more counts
/// Source   torch/distributed/run.py; mpirun(1) of Open MPI 4.1 and MPICH 4.0; srun(1) of 22.05
/// See      launch_device.hpp (its GPU), tests/comm/launch_environment_test.cpp
#pragma once
#include "mpt/base/error.hpp"            // check, join
#include "mpt/comm/launch_arguments.hpp" // launch_arguments, launch_number
#include "mpt/comm/slurm_nodes.hpp"      // slurm_hosts, slurm_tasks

#include <array>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

enum class launcher { alone, arguments, torchrun, open_mpi, pmi, slurm };

struct launch {
    launcher by = launcher::alone;
    int rank = 0;                          // 0 to world_size - 1
    int world_size = 1;                    // processes of the run
    int local_rank = 0;                    // among those on this machine
    int local_size = 1;                    // how many they are; 0: nobody has said
    std::string master_addr = "127.0.0.1"; // where rank 0 listens; empty: only MPI knows
    int master_port = 29500;
    std::string run_id;                // of this run and of no other; empty: nobody has said
    std::string said = "one process";  // who has told: "RANK=1 WORLD_SIZE=4"
    bool mpi = false;                  // started so that MPI_Init finds the others
    std::vector<std::string> warnings; // for rank 0 to print
};

/// A variable's value by its name, or nullptr.
using variables = std::function<const char*(const char*)>;

namespace launching {

/// Variables of one launcher; of several names for one thing the first that is set counts.
struct names {
    launcher by;
    const char *rank, *world_size;
    std::array<const char*, 3> local_rank, local_size;
};
inline constexpr names known[] = {
    {launcher::torchrun, "RANK", "WORLD_SIZE", {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}},
    // Not ..._NODE_RANK: it counts the ranks of other jobs on this machine, too.
    {launcher::open_mpi,
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     {"OMPI_COMM_WORLD_LOCAL_RANK"},
     {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {launcher::pmi,
     "PMI_RANK",
     "PMI_SIZE",
     {"MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
     {"MPI_LOCALNRANKS", "PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"}},
    {launcher::slurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_LOCALID"}, {}},
};

struct place {
    const names* by; // nullptr: arguments
    int rank, world_size;
    std::string said;
};

inline bool mpi(const place& p) {
    return p.by && (p.by->by == launcher::open_mpi || p.by->by == launcher::pmi);
}

/// A launcher's pair of variables, if it is set.
inline std::optional<place> pair(const variables& get, const names& by) {
    const char* const rank = get(by.rank);
    const char* const size = get(by.world_size);
    if (by.by == launcher::slurm) { // in a bare batch script, and in salloc's shell, no step counts
        if (!rank || !size || !get("SLURM_STEP_ID")) return {};
        if (launch_number(by.world_size, size, 1, most_ranks) == 1) return {};
    }
    if (!rank && !size) return {};
    check(rank && size, rank ? by.rank : by.world_size, " is set and ",
          rank ? by.world_size : by.rank, " is not; set both, or neither for one process");
    const int ranks = launch_number(by.world_size, size, 1, most_ranks);
    return place{&by, launch_number(by.rank, rank, 0, ranks - 1), ranks,
                 join(by.rank, '=', rank, ' ', by.world_size, '=', size)};
}

/// Everybody who tells a rank, in the order in which they count.
inline std::vector<place> places(const launch_arguments& given, const variables& get) {
    std::vector<place> found;
    check(given.rank.has_value() == given.world_size.has_value(), "--rank and --world-size: only ",
          given.rank ? "the first" : "the second", " is given; give both, or neither");
    if (given.rank) {
        check(*given.rank < *given.world_size, "--rank is ", *given.rank, " of --world-size ",
              *given.world_size, "; wanted 0 to ", *given.world_size - 1);
        found.push_back({nullptr, *given.rank, *given.world_size,
                         join("--rank ", *given.rank, " --world-size ", *given.world_size)});
    }
    for (const names& by : known) {
        const auto p = pair(get, by);
        if (!p) continue;
        // mpirun starts its daemons as a step of Slurm, one a machine: then Slurm counts those.
        if (by.by == launcher::slurm && !found.empty() && mpi(found.back()) &&
            (p->rank != found[0].rank || p->world_size != found[0].world_size))
            continue;
        found.push_back(*p);
        // The same of torchrun, if it is mpirun or srun that has started it once a machine.
        if (by.by == launcher::torchrun && get("TORCHELASTIC_RUN_ID")) break;
    }
    for (const place& p : found)
        check(p.rank == found[0].rank && p.world_size == found[0].world_size,
              "launch: ", found[0].said, ", but ", p.said,
              "; start with one launcher, and unset the other's variables");
    return found;
}

/// The first of these variables that is set; `said` says which.
inline std::optional<int> first(const variables& get, const std::array<const char*, 3>& names,
                                int low, std::string& said) {
    for (const char* const name : names)
        if (const char* const text = name ? get(name) : nullptr) {
            said = join(name, '=', text);
            return launch_number(name, text, low, most_ranks);
        }
    return {};
}

/// local_rank and local_size, from those who have told the rank.
inline void on_this_machine(struct launch& my, const std::vector<place>& found,
                            const launch_arguments& given, const variables& get) {
    std::optional<int> local, count;
    std::string said, rest;
    for (const place& p : found) {
        if (!p.by || local) continue;
        local = first(get, p.by->local_rank, 0, said);
        count = first(get, p.by->local_size, 1, rest);
        const char* const node = get("SLURM_NODEID");
        const char* const tasks = get("SLURM_STEP_TASKS_PER_NODE");
        if (p.by->by == launcher::slurm && node && tasks) {
            const std::vector<int> each = slurm_tasks(tasks);
            count = each[std::size_t(launch_number("SLURM_NODEID", node, 0, int(each.size()) - 1))];
        }
    }
    if (given.local_rank) { // DeepSpeed gives it and sets LOCAL_RANK
        check(!local || *local == *given.local_rank, "launch: --local-rank ", *given.local_rank,
              ", but ", said, "; give one of them, or both alike");
        local = given.local_rank;
    }
    if (!local && my.world_size > 1)
        my.warnings.push_back(join(
            my.said, " without a local rank: it is taken as 0, so every rank takes its machine's "
                     "first GPU; set LOCAL_RANK to 0, 1, ... on each machine"));
    my.local_rank = local.value_or(0);
    my.local_size = count.value_or(my.world_size == 1 ? 1 : 0);
    check(my.local_size <= my.world_size, "launch: ", rest, " ranks on this machine, and ", my.said,
          "; these are the variables of two launches");
    check(my.world_size == 1 || my.local_size == 0 || my.local_rank < my.local_size,
          "launch: local rank ", my.local_rank, " of ", my.local_size,
          " on this machine; wanted 0 to ", my.local_size - 1);
}

/// Where rank 0 listens.
inline void where_they_meet(struct launch& my, const launch_arguments& given,
                            const variables& get) {
    const char* const port = get("MASTER_PORT");
    if (port) my.master_port = launch_number("MASTER_PORT", port, 1, 65535);
    // Where torchrun's agent itself listens at MASTER_PORT, the next one is taken.
    const char* const agent = get("TORCHELASTIC_USE_AGENT_STORE");
    if (agent && std::string_view(agent) == "True")
        my.master_port += my.master_port < 65535 ? 1 : -1;
    if (given.master_port) my.master_port = *given.master_port;
    const char* const addr = get("MASTER_ADDR");
    const char* nodes = get("SLURM_STEP_NODELIST");
    if (!nodes) nodes = get("SLURM_JOB_NODELIST");
    const bool step = my.by == launcher::slurm || my.by == launcher::pmi;
    if (given.master_addr) {
        my.master_addr = *given.master_addr;
    } else if (addr && *addr) {
        my.master_addr = addr;
    } else if (my.world_size > 1 && my.world_size != my.local_size) {
        my.master_addr = nodes && step ? slurm_hosts(nodes).front() : std::string();
    } // else all are here: 127.0.0.1
    check(!my.master_addr.empty() || my.mpi, "WORLD_SIZE=", my.world_size,
          " but MASTER_ADDR is not set. Set MASTER_ADDR and MASTER_PORT, or start with torchrun, "
          "mpirun or srun (environment variable MASTER_ADDR expected, but not set)");
}

/// What tells this run from the one before it.
inline std::string run_id(const variables& get) {
    const auto with = [&](const char* id, const char* part) {
        const char* const more = get(part);
        return join(id, '.', more ? more : "0");
    };
    if (const char* const id = get("MPT_RUN_ID")) return id;
    if (const char* const id = get("TORCHELASTIC_RUN_ID"))
        return with(id, "TORCHELASTIC_RESTART_COUNT");
    if (const char* const id = get("SLURM_JOB_ID")) return with(id, "SLURM_STEP_ID");
    return {};
}

} // namespace launching

/// This process's place in its run. Throws where a variable is no such number, where half of a
/// pair is missing, where two launchers disagree, and where nobody says how to reach rank 0.
inline struct launch launch_environment(const launch_arguments& given, const variables& get) {
    struct launch my;
    const std::vector<launching::place> found = launching::places(given, get);
    if (!found.empty()) {
        const launching::place& p = found[0];
        my.by = p.by ? p.by->by : launcher::arguments;
        my.rank = p.rank, my.world_size = p.world_size, my.said = p.said;
    }
    for (const launching::place& p : found)
        my.mpi = my.mpi || launching::mpi(p) || // srun --mpi=pmix
                 (p.by && p.by->by == launcher::slurm && get("PMIX_RANK"));
    launching::on_this_machine(my, found, given, get);
    launching::where_they_meet(my, given, get);
    my.run_id = launching::run_id(get);
    return my;
}

inline struct launch launch_environment(const launch_arguments& given = {}) {
    return launch_environment(given,
                              [](const char* name) -> const char* { return std::getenv(name); });
}

} // namespace mpt
