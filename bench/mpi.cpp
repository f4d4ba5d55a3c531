// SPDX-License-Identifier: MIT
// mpi.cpp -- all_reduce among processes: in rank order, against MPI_Allreduce.
#include "common.hpp"

#include "mpt/comm/launch_environment.hpp" // launch_environment
#include "mpt/comm/mpi.hpp"                // mpi_process, mpi_rank

#include <cerrno>
#include <optional>

namespace {

constexpr const char* about =
    "all_reduce of 25 MiB of fp32 (and of 1 MiB) between two processes, in rank order with the\n"
    "bits of threads, against MPI_Allreduce, which chooses an order of its own. Started without a\n"
    "launcher it starts its two ranks itself, by the mpirun that CMake found.";

constexpr int ranks = 2;

// Become mpirun of this very program. As root and on one core, too: both ranks are here.
[[noreturn]] void start_ranks(char** argv) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "OMPI_MCA_rmaps_base_oversubscribe"})
        setenv(name, "1", 0);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
    std::vector<const char*> words{MPT_MPIEXEC, MPT_MPIEXEC_FLAG, "2"};
    for (char** word = argv; *word; ++word) words.push_back(*word);
    words.push_back(nullptr);
    execvp(words[0], const_cast<char* const*>(words.data()));
    throw mpt::error(mpt::join(words[0], ": ", std::strerror(errno),
                               "; start the two ranks yourself: mpirun -n 2 ", argv[0]));
}

// Rank 0 measures; the other one does what rank 0 says, by MPI's own broadcast.
enum order : int { leave, ours, theirs, cpu_seconds };

class problem {
public:
    problem(mpt::communicator& comm, mpt::thread_pool& pool, mpt::memory& mem, std::size_t bytes)
        : comm_(comm), x_(bench::numbers(pool, mem, bytes / sizeof(float), 1e-6f)) {}

    /// Rank 0: both ranks do `what`, and this returns.
    void tell(int what) {
        mpt::mpi_demand(MPI_Bcast(&what, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
        perform(what);
    }
    /// Rank 1: until it may leave.
    void obey() {
        for (int what = ours; what != leave; perform(what))
            mpt::mpi_demand(MPI_Bcast(&what, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    }
    /// Rank 0: what rank 1 has used of the CPUs, so that it does not count as a stranger.
    double cpu_seconds_of_others() {
        tell(cpu_seconds);
        double seconds = 0;
        mpt::mpi_demand(MPI_Recv(&seconds, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                        "MPI_Recv");
        return seconds;
    }

private:
    void perform(int what) {
        if (what == ours) comm_.all_reduce(x_.span());
        if (what == theirs)
            mpt::mpi_demand(MPI_Allreduce(MPI_IN_PLACE, x_.span().data(), int(x_.size()), MPI_FLOAT,
                                          MPI_SUM, MPI_COMM_WORLD),
                            "MPI_Allreduce");
        if (what == cpu_seconds && comm_.rank() == 1) {
            const double mine = bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
            mpt::mpi_demand(MPI_Send(&mine, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD), "MPI_Send");
        }
    }

    mpt::communicator& comm_;
    mpt::buffer<float> x_;
};

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "mpi", about);
    return bench::guarded("mpi", [&] {
        const struct mpt::launch place = mpt::launch_environment();
        if (!place.mpi) start_ranks(argv);
        mpt::mpi_process job;
        mpt::mpi_rank comm(job);
        mpt::check(comm.size() == ranks, "it runs as ", comm.size(), " ranks (", place.said,
                   "); its rows are of ", ranks, ": mpirun -n ", ranks, ", or no launcher");
        mpt::thread_pool pool(1);
        mpt::memory mem;
        std::optional<bench::table> table; // of rank 0
        if (comm.rank() == 0) table.emplace(o, "mpi");

        const std::size_t full = o.size<std::size_t>(25 << 20, 1 << 16);
        const struct {
            std::string name;
            std::size_t bytes;
            double goal; // within 20 % of its time
        } rows[] = {{"all_reduce, 2 processes, 25 MiB fp32", full, 1 / 1.2},
                    {"all_reduce, 2 processes, 1 MiB fp32", full / 25, 0}};
        for (const auto& row : rows) {
            if (row.name.find(o.only) == std::string::npos) continue;
            problem with(comm, pool, mem, row.bytes);
            if (!table) {
                with.obey();
                continue;
            }
            table->partners = [&] { return with.cpu_seconds_of_others(); };
            const double bus = 1e-9 * double(row.bytes); // 2 (N - 1) / N, what a rank sends
            table->compare(row.name, "GB/s", row.goal, {"", bus, [&] { with.tell(ours); }},
                           {"MPI_Allreduce", bus, [&] { with.tell(theirs); }});
            with.tell(leave);
        }
    });
}
