// SPDX-License-Identifier: MIT
// mpi_faults KIND VICTIM POINT: all ranks call verbs in turn; at number POINT rank VICTIM throws,
// stalls, leaves, is killed, differs from the others, sends another number of elements than its
// receiver takes, or drops what it has started. Every other rank says on stderr how it ended, and
// the job ends. mpi_faults.sh looks at both.
#include "mpt/comm/mpi.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int calls = 40;

void call(mpt::communicator& comm, int number) {
    const int n = comm.size(), next = (comm.rank() + 1) % n, before = (comm.rank() + n - 1) % n;
    std::vector<float> some(1000, 1), all(1000 * std::size_t(n), 2);
    const mpt::device_span<float> x(some.data(), some.size()), y(all.data(), all.size());
    switch (number % 9) {
    case 0:
        return comm.all_reduce(x);
    case 1:
        return comm.reduce_scatter<float>(x, y);
    case 2:
        return comm.all_gather<float>(y, x);
    case 3:
        return comm.broadcast(x, number % n);
    case 4: {
        std::vector<float> to(all.size());
        return comm.all_to_all<float>({to.data(), to.size()}, y);
    }
    case 5:
        return comm.barrier();
    case 6: {
        mpt::handle one = comm.start_all_reduce(x), two = comm.start_reduce_scatter<float>(x, y);
        one.wait();
        return two.wait();
    }
    case 7: {
        std::vector<float> got(some.size());
        mpt::handle going = comm.start_send<float>(x, next);
        comm.recv<float>({got.data(), got.size()}, before);
        return going.wait();
    }
    default: {
        const std::unique_ptr<mpt::communicator> half = comm.split(comm.rank() % 2, 0);
        half->sum(1);
    }
    }
}

void fault(mpt::communicator& comm, const std::string& kind) {
    if (kind == "throws") throw mpt::error("thrown on purpose");
    if (kind == "killed") std::raise(SIGKILL);
    if (kind == "stalls") std::this_thread::sleep_for(std::chrono::hours(1));
    std::vector<float> odd(7);
    const mpt::device_span<float> few(odd.data(), odd.size());
    if (kind == "differs") comm.all_reduce(few);
    if (kind == "letter") comm.send<float>(few, (comm.rank() + 1) % comm.size());
    if (kind == "drops") {
        const mpt::handle going = comm.start_all_reduce(few);
        throw mpt::error("thrown on purpose");
    }
}

} // namespace

int main(int, char** argv) {
    mpt::mpi_process job;
    try {
        mpt::mpi_rank comm(job);
        const std::string kind = argv[1];
        const int victim = std::atoi(argv[2]), point = std::atoi(argv[3]);
        for (int number = 0; number < calls; ++number) {
            if (number == point && comm.rank() == victim) {
                if (kind == "leaves") return 0;
                fault(comm, kind);
            }
            call(comm, number);
        }
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "ended %d: %s\n", job.rank(), e.what());
        job.end_job(e.what());
    }
}
