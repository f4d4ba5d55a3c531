// SPDX-License-Identifier: MIT
// Processes of MPI whose buffers are on a device: the bits and counts of threads, whose are not.
#include "mpt/comm/launch_device.hpp"
#include "mpt/comm/mpi_cuda.hpp"
#include "mpt/comm/world.hpp"

#include "every_verb.hpp"
#include "from_host.hpp"

#include <cstdio>
#include <memory>
#include <string>

using namespace mpt;

namespace {

int wrong = 0;
void expect(bool ok, const std::string& what) {
    if (ok) return;
    std::fprintf(stderr, "wrong: %s\n", what.c_str());
    ++wrong;
}

} // namespace

int main() {
    mpi_process job;
    try {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
            std::printf("skipped: no CUDA device\n");
            return 0;
        }
        const int device = launch_device(launch_environment(), devices);
        check(cudaSetDevice(device) == cudaSuccess, "cudaSetDevice");
        cudaStream_t kernels = nullptr;
        check(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking) == cudaSuccess, "stream");
        {
            from_host<mpi_cuda_rank> comm(kernels, job, kernels);
            const std::size_t n = std::size_t(comm.size());
            for (const std::size_t size : {std::size_t(0), n - 1, n + 1, std::size_t(1000)}) {
                const every_verb::outcome mine = every_verb::run(comm, size);
                run_ranks(int(n), [&](communicator& rank) {
                    const every_verb::outcome theirs = every_verb::run(rank, size);
                    if (rank.rank() != comm.rank()) return;
                    expect(mine.bits == theirs.bits, join("the bits, size ", size));
                    expect(mine.total == theirs.total, join("the counts, size ", size));
                });
            }
            const std::unique_ptr<communicator> half = comm.split(comm.rank() % 2, 0);
            expect(half->sum(1) == half->size(), "a group");
        }
        cudaStreamDestroy(kernels);
        check(wrong == 0, wrong, " things are wrong");
        if (job.rank() == 0) std::printf("content\n");
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "ended %d: %s\n", job.rank(), e.what());
        job.end_job(e.what());
    }
}
