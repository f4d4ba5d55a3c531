// SPDX-License-Identifier: MIT
#include "mpt/comm/launch_environment.hpp"

#include "mpt/comm/launch_device.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

using namespace mpt;

namespace {

using environment = std::map<std::string, std::string>;

launch launched(const environment& set, const launch_arguments& given = {}) {
    return launch_environment(given, [&](const char* name) -> const char* {
        const auto found = set.find(name);
        return found == set.end() ? nullptr : found->second.c_str();
    });
}

std::string refused(const environment& set, const launch_arguments& given = {}) {
    try {
        launched(set, given);
    } catch (const error& e) {
        return e.what();
    }
    return "";
}

environment operator+(environment a, const environment& b) {
    for (const auto& [name, value] : b) a[name] = value;
    return a;
}

// What the launchers set, seen in their source or on a machine.
const environment torchrun = {{"LOCAL_RANK", "1"},
                              {"RANK", "3"},
                              {"GROUP_RANK", "1"},
                              {"ROLE_RANK", "3"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"WORLD_SIZE", "4"},
                              {"ROLE_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "gpu07"},
                              {"MASTER_PORT", "29400"},
                              {"TORCHELASTIC_RESTART_COUNT", "2"},
                              {"TORCHELASTIC_RUN_ID", "abc"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
const environment open_mpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"OMPI_COMM_WORLD_NODE_RANK", "6"},
                              {"OMPI_UNIVERSE_SIZE", "8"},
                              {"PMIX_RANK", "2"}};
const environment mpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "3"}};
const environment cray = {{"PMI_RANK", "5"},
                          {"PMI_SIZE", "8"},
                          {"PALS_LOCAL_RANKID", "1"},
                          {"PMI_LOCAL_RANK", "1"},
                          {"PMI_LOCAL_SIZE", "4"}};
const environment batch = { // a script of sbatch, before any srun
    {"SLURM_JOB_ID", "77"},
    {"SLURM_NTASKS", "16"},
    {"SLURM_NPROCS", "16"},
    {"SLURM_PROCID", "0"},
    {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "0"},
    {"SLURM_JOB_NODELIST", "gpu[08-09]"}};
const environment srun = batch + environment{{"SLURM_STEP_ID", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "5"},
                                             {"SLURM_PROCID", "3"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_NODEID", "1"},
                                             {"SLURM_STEP_NODELIST", "gpu[08-09],big"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "3,1(x2)"}};

struct row {
    const char* name;
    environment set;
    launcher by;
    int rank, world_size, local_rank, local_size;
    const char* master_addr;
    int master_port;
    const char* run_id;
    bool mpi = false;
};

} // namespace

TEST_CASE("who I am, by launcher") {
    const std::vector<row> rows = {
        {"nothing", {}, launcher::alone, 0, 1, 0, 1, "127.0.0.1", 29500, ""},
        {"torchrun", torchrun, launcher::torchrun, 3, 4, 1, 2, "gpu07", 29400, "abc.2"},
        {"Open MPI", open_mpi, launcher::open_mpi, 2, 4, 2, 4, "127.0.0.1", 29500, "", true},
        {"Open MPI on two machines",
         open_mpi +
             environment{{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
         launcher::open_mpi, 2, 4, 0, 2, "", 29500, "", true},
        {"MPICH", mpich, launcher::pmi, 1, 3, 1, 3, "127.0.0.1", 29500, "", true},
        {"Cray PALS", cray, launcher::pmi, 5, 8, 1, 4, "", 29500, "", true},
        {"a batch script of Slurm is one process", batch, launcher::alone, 0, 1, 0, 1, "127.0.0.1",
         29500, "77.0"},
        {"a step of one task, such as srun --pty bash",
         batch + environment{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
         launcher::alone, 0, 1, 0, 1, "127.0.0.1", 29500, "77.0"},
        {"a step of Slurm", srun, launcher::slurm, 3, 5, 0, 1, "gpu08", 29500, "77.1"},
        {"the same for MPI", srun + environment{{"PMIX_RANK", "3"}}, launcher::slurm, 3, 5, 0, 1,
         "gpu08", 29500, "77.1", true},
        {"srun --mpi=pmi2: two who agree", srun + environment{{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}},
         launcher::pmi, 3, 5, 0, 1, "gpu08", 29500, "77.1", true},
        {"srun starts torchrun once a machine",
         srun + torchrun + environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}},
         launcher::torchrun, 3, 4, 1, 2, "gpu07", 29400, "abc.2"},
        {"mpirun starts torchrun once a machine",
         torchrun + environment{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
         launcher::torchrun, 3, 4, 1, 2, "gpu07", 29400, "abc.2"},
        {"mpirun's daemons are a step of Slurm",
         srun + open_mpi + environment{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}},
         launcher::open_mpi, 2, 4, 2, 4, "127.0.0.1", 29500, "77.1", true},
        {"torchrun whose agent has MASTER_PORT",
         torchrun + environment{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, launcher::torchrun, 3, 4,
         1, 2, "gpu07", 29401, "abc.2"},
        {"a shell loop",
         {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}},
         launcher::torchrun,
         0,
         2,
         0,
         0,
         "::1",
         29500,
         ""},
        {"RANK copied from mpirun's", open_mpi + environment{{"RANK", "2"}, {"WORLD_SIZE", "4"}},
         launcher::torchrun, 2, 4, 2, 4, "127.0.0.1", 29500, "", true},
        {"a run named by hand",
         {{"MPT_RUN_ID", "mine"}, {"SLURM_JOB_ID", "77"}},
         launcher::alone,
         0,
         1,
         0,
         1,
         "127.0.0.1",
         29500,
         "mine"},
    };
    for (const row& r : rows) {
        CAPTURE(r.name);
        const launch my = launched(r.set);
        CHECK(my.by == r.by);
        CHECK(my.rank == r.rank);
        CHECK(my.world_size == r.world_size);
        CHECK(my.local_rank == r.local_rank);
        CHECK(my.local_size == r.local_size);
        CHECK(my.master_addr == r.master_addr);
        CHECK(my.master_port == r.master_port);
        CHECK(my.run_id == r.run_id);
        CHECK(my.mpi == r.mpi);
    }
    CHECK(launched(torchrun).said == "RANK=3 WORLD_SIZE=4");
    CHECK(launched(torchrun).warnings.empty());
    const launch loop = launched({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}});
    REQUIRE(loop.warnings.size() == 1); // LOCAL_RANK is missing
    CHECK(loop.warnings[0].find("set LOCAL_RANK") != std::string::npos);
    CHECK(launched({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).warnings.empty());
}

TEST_CASE("what is refused, by name") {
    struct wrong {
        environment set;
        const char* says;
    };
    const environment two = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}};
    const std::vector<wrong> rows = {
        {two + environment{{"RANK", "1x"}}, "RANK is \"1x\"; wanted a whole number from 0 to 1"},
        {two + environment{{"RANK", ""}}, "RANK is \"\""},
        {two + environment{{"RANK", " 1"}}, "RANK is \" 1\""},
        {two + environment{{"RANK", "+1"}}, "RANK is \"+1\""},
        {two + environment{{"RANK", "2"}}, "RANK is \"2\"; wanted a whole number from 0 to 1"},
        {two + environment{{"RANK", "-1"}}, "RANK is \"-1\""},
        {two + environment{{"RANK", "4294967297"}}, "RANK is \"4294967297\""}, // 1 in 32 bits
        {two + environment{{"WORLD_SIZE", "0"}}, "WORLD_SIZE is \"0\""},
        {two + environment{{"LOCAL_RANK", "one"}}, "LOCAL_RANK is \"one\""},
        {two + environment{{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}, "local rank 2 of 2"},
        {two + environment{{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "4"}}, "LOCAL_WORLD_SIZE=4"},
        {two + environment{{"MASTER_PORT", "70000"}}, "MASTER_PORT is \"70000\""},
        {{{"RANK", "1"}}, "RANK is set and WORLD_SIZE is not"},
        {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set and RANK is not"},
        {{{"OMPI_COMM_WORLD_RANK", "1"}}, "OMPI_COMM_WORLD_SIZE is not"},
        {{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}},
         "WORLD_SIZE=4 but MASTER_ADDR is not set. Set MASTER_ADDR and MASTER_PORT, or start with "
         "torchrun, mpirun or srun"},
        {{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", ""}},
         "environment variable MASTER_ADDR expected, but not set"},
        // Two who disagree: both are named.
        {open_mpi + environment{{"RANK", "0"}, {"WORLD_SIZE", "1"}},
         "RANK=0 WORLD_SIZE=1, but OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4"},
        {open_mpi + mpich, "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4, but PMI_RANK=1"},
        {srun + environment{{"RANK", "0"}, {"WORLD_SIZE", "5"}},
         "RANK=0 WORLD_SIZE=5, but SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=5"},
        {srun + environment{{"SLURM_STEP_NODELIST", "gpu[08-"}}, "a bracket is not closed"},
    };
    for (const wrong& w : rows) {
        CAPTURE(w.says);
        const std::string said = refused(w.set);
        CAPTURE(said);
        CHECK(said.find(w.says) != std::string::npos);
    }
}

TEST_CASE("arguments come first, and leave the program's own alone") {
    const auto taken = [](std::vector<std::string> args) {
        const launch_arguments found = take_launch_arguments(args);
        return std::pair(found, args);
    };
    const auto [all, rest] =
        taken({"--steps", "5", "--rank", "1", "--world-size=4", "--local_rank=1", "--master-addr",
               "h", "--lr=3", "--master-port", "1234"});
    CHECK(rest == std::vector<std::string>{"--steps", "5", "--lr=3"});
    const launch my = launched({}, all);
    CHECK(my.by == launcher::arguments);
    CHECK(my.rank == 1);
    CHECK(my.world_size == 4);
    CHECK(my.local_rank == 1);
    CHECK(my.master_addr == "h");
    CHECK(my.master_port == 1234);
    CHECK(my.said == "--rank 1 --world-size 4");

    CHECK(taken({"--local-rank", "2"}).first.local_rank == 2);
    CHECK(taken({"--", "--rank", "2"}).second == std::vector<std::string>{"--", "--rank", "2"});
    CHECK(taken({"--rank", "2", "--rank=2"}).first.rank == 2);
    const auto refuses = [&](const std::vector<std::string>& args) -> std::string {
        try {
            taken(args);
        } catch (const error& e) {
            return e.what();
        }
        return "";
    };
    CHECK(refuses({"--rank"}) == "--rank stands without a value; wanted --rank VALUE");
    CHECK(refuses({"--rank=1O"}) == "--rank is \"1O\"; wanted a whole number from 0 to 1048575");
    CHECK(refuses({"--rank", "1", "--rank", "2"}).find("given twice") != std::string::npos);

    // DeepSpeed gives the argument and sets the variable; where they differ, both are named.
    CHECK(launched(torchrun, taken({"--local_rank=1"}).first).local_rank == 1);
    CHECK(refused(torchrun, taken({"--local_rank=0"}).first)
              .find("--local-rank 0, but LOCAL_RANK=1") != std::string::npos);
    CHECK(refused(torchrun, taken({"--rank=0", "--world-size=4"}).first)
              .find("--rank 0 --world-size 4, but RANK=3 WORLD_SIZE=4") != std::string::npos);
    CHECK(refused({}, taken({"--rank=0"}).first).find("only the first") != std::string::npos);
    CHECK(refused({}, taken({"--rank=4", "--world-size=4"}).first)
              .find("--rank is 4 of --world-size 4") != std::string::npos);
}

TEST_CASE("Slurm's lists") {
    using list = std::vector<std::string>;
    CHECK(slurm_hosts("gnode[10,20,25-27]") ==
          list{"gnode10", "gnode20", "gnode25", "gnode26", "gnode27"});
    CHECK(slurm_hosts("n[08-11],login") == list{"n08", "n09", "n10", "n11", "login"});
    CHECK(slurm_hosts("n[098-100]") == list{"n098", "n099", "n100"});
    CHECK(slurm_hosts("n[9-10]") == list{"n9", "n10"});
    CHECK(slurm_hosts("r[1-2]n[01,3]x") == list{"r1n01x", "r1n3x", "r2n01x", "r2n3x"});
    CHECK(slurm_hosts("one") == list{"one"});
    CHECK(slurm_tasks("4(x2),1") == std::vector<int>{4, 4, 1});
    CHECK(slurm_tasks("16") == std::vector<int>{16});
    for (const char* bad : {"", "n[1-2", "n1-2]", "n[2-1]", "n[a-b]", "n[1,]", "a,,b", "n[[1]]",
                            "n[1--2]", "n[0-999999]", "n[]", "n[-1]"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(slurm_hosts(bad), error);
    }
    for (const char* bad : {"", "4(x2", "4(x)", "x", "4(2)", "-1", "4(x-2)", "4(x2)3"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(slurm_tasks(bad), error);
    }
}

TEST_CASE("the GPU of a rank, and what ranks without one are told") {
    launch my = launched(torchrun);
    my.local_rank = 5, my.local_size = 6;
    CHECK(launch_device(my, 4) == 1);
    CHECK(launch_device(my, 8) == 5);
    CHECK(launch_device(my, 1) == 0); // the launcher shows each rank its own
    CHECK_THROWS_AS(launch_device(my, 0), error);
    CHECK(launch_device_warning(my, 4).find("6 ranks on a machine with 4 GPUs") == 0);
    CHECK(launch_device_warning(my, 1).empty());
    CHECK(launch_device_warning(my, 8).empty());

    require_gpu(my, 1);
    require_gpu(launched({}), 0);
    require_gpu(launched(open_mpi), 0);
    try {
        require_gpu(my, 0);
        FAIL("it was let pass");
    } catch (const error& e) {
        CHECK(std::string(e.what()).find("use mpirun -np 4") != std::string::npos);
    }
}
