// SPDX-License-Identifier: MIT
// One of the processes that nccl_ranks.sh starts with RANK and WORLD_SIZE, each on a GPU.
#include "mpt/comm/nccl.hpp"
#include "mpt/comm/world.hpp"
#include "mpt/kernels/rank_order_sum.cuh"

#include "every_verb.hpp"
#include "from_host.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace mpt;

namespace {

const rank_order_sums canonical = {kernels::rank_order_sum<float>, kernels::rank_order_sum<double>,
                                   kernels::rank_order_sum<__half>,
                                   kernels::rank_order_sum<__nv_bfloat16>};

int wrong = 0;
void expect(bool ok, const std::string& what) {
    if (ok) return;
    std::fprintf(stderr, "wrong: %s\n", what.c_str());
    ++wrong;
}

// The bits and counts of threads, with the sums of rank_order_sum.cuh.
void as_threads(communicator& comm) {
    const std::size_t n = std::size_t(comm.size());
    for (const std::size_t size :
         {std::size_t(0), std::size_t(1), n - 1, n, n + 1, std::size_t(1000)}) {
        const every_verb::outcome mine = every_verb::run(comm, size);
        run_ranks(int(n), [&](communicator& rank) {
            const every_verb::outcome theirs = every_verb::run(rank, size);
            if (rank.rank() != comm.rank()) return;
            expect(mine.bits == theirs.bits,
                   join("the bits of rank ", rank.rank(), ", size ", size));
            expect(mine.total == theirs.total, join("the counts, size ", size));
        });
    }
    std::vector<float> big(3'000'001); // three chunks of 4 MiB on two ranks
    std::vector<float> sum(big.size());
    for (int r = 0; r < comm.size(); ++r)
        for (std::size_t i = 0; i < big.size(); ++i) {
            const float x = float((i * 7919 + std::size_t(r) * 104729) % 1000003) * 1e-3f;
            sum[i] = r == 0 ? x : sum[i] + x;
            if (r == comm.rank()) big[i] = x;
        }
    comm.all_reduce(rig::span(big));
    expect(rig::same_bits(big, sum), "the bits of several chunks");
}

// NCCL's own sums: each of N - 1 additions rounds, in whatever order.
void as_nccl(communicator& comm) {
    const std::size_t n = 10007;
    std::vector<float> x = every_verb::mine<float>(comm, 1, n);
    std::vector<double> sum(n), size(n);
    for (int r = 0; r < comm.size(); ++r) {
        const std::vector<float> part = rig::numbers<float>(64 + std::uint32_t(r), n, 100);
        for (std::size_t i = 0; i < n; ++i) sum[i] += part[i], size[i] += std::fabs(part[i]);
    }
    comm.all_reduce(rig::span(x));
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i)
        worst = std::max(worst, std::fabs(x[i] - sum[i]) / std::max(size[i], 1e-30));
    expect(worst <= (comm.size() - 1) * 0x1p-24, join("NCCL's sums are off by ", worst));
}

void groups(communicator& comm) {
    const std::unique_ptr<communicator> half = comm.split(comm.rank() % 2, -comm.rank());
    const std::unique_ptr<communicator> some = comm.split(comm.rank() == 1 ? -1 : 0, 0);
    expect(half->size() == (comm.rank() % 2 ? comm.size() / 2 : (comm.size() + 1) / 2),
           "half's size");
    expect(half->rank() == half->size() - 1 - comm.rank() / 2, "half's rank: keys run backwards");
    expect(bool(some) == (comm.rank() != 1), "a negative color gets none");
    if (some) expect(some->sum(1) == comm.size() - 1, "the sum over some");
    expect(half->max(comm.rank()) ==
               (comm.size() - 1) / 2 * 2 - (comm.rank() % 2) * (comm.size() % 2 ? 1 : -1),
           "the largest rank of half");
}

// A communicator and a stream that the caller has made; the bytes carried by threads would be by
// MPI: here by another communicator of NCCL's.
void wrapped(std::shared_ptr<nccl_comm> of) {
    nccl_rank by(of);
    nccl_rank comm(std::make_shared<nccl_comm>(of->get()));
    expect(comm.rank() == of->rank() && comm.size() == of->size(), "the caller's communicator");
    expect(comm.sum(2) == 2 * of->size(), "a sum in it");
    comm.barrier();
}

} // namespace

int main(int argc, char** argv) {
    try {
        const auto my = launch_environment();
        cudaStream_t kernels = nullptr;
        const auto of = std::make_shared<nccl_comm>(my);
        cuda_demand(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking), "cudaStreamCreate");
        if (argc > 1 && std::string(argv[1]) == "leaves") { // the others end, and say so
            nccl_rank comm(of, kernels);
            comm.barrier();
            if (my.rank == 1) return 0;
            comm.all(true);
        } else {
            from_host<nccl_rank> comm(kernels, of, kernels, canonical);
            from_host<nccl_rank> nccls(kernels, of, kernels);
            as_threads(comm);
            as_nccl(nccls);
            groups(comm);
            wrapped(of);
        }
        cudaStreamDestroy(kernels);
        if (wrong == 0) std::printf("rank %d is content\n", my.rank);
        return wrong ? 1 : 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "ended: %s\n", e.what());
        return 1;
    }
}
