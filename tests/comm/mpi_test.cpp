// SPDX-License-Identifier: MIT
#include "../mpi_job.hpp"

#include "mpt/comm/world.hpp"

#include "every_verb.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

using namespace mpt;

namespace {

// A digest as two numbers that a double holds exactly.
std::vector<double> halves(std::uint64_t x) { return {double(x >> 32), double(x & 0xffffffffu)}; }

} // namespace

TEST_CASE("the bits and the counts of threads") {
    mpi_rank comm(job());
    const std::size_t n = std::size_t(comm.size());
    // The last one makes two chunks of sums in fp32, and several in fp64: 16 MiB hold 2 N of them.
    for (const std::size_t size : {std::size_t(0), std::size_t(1), n - 1, n, n + 1,
                                   std::size_t(1000), std::size_t(700001)}) {
        CAPTURE(size);
        const every_verb::outcome mine = every_verb::run(comm, size);
        const std::vector<double> said = comm.gather(halves(mine.bits));
        std::vector<every_verb::outcome> threads(n);
        run_ranks(int(n), [&](communicator& rank) {
            threads[std::size_t(rank.rank())] = every_verb::run(rank, size);
        });
        for (std::size_t r = 0; r < n; ++r) {
            CAPTURE(r);
            CHECK(std::vector<double>(&said[2 * r], &said[2 * r] + 2) == halves(threads[r].bits));
        }
        CHECK(mine.total == threads[std::size_t(comm.rank())].total);
    }
}

TEST_CASE("sums in another order have other bits: the digests can tell") {
    mpi_rank comm(job());
    std::vector<float> x = rig::numbers<float>(std::uint32_t(comm.rank()), 4096, 100);
    std::vector<float> theirs = x;
    comm.all_reduce(rig::span(x));
    MPI_Allreduce(MPI_IN_PLACE, theirs.data(), int(theirs.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    std::vector<float> backwards(x.size());
    for (int r = comm.size() - 1; r >= 0; --r) {
        const std::vector<float> part = rig::numbers<float>(std::uint32_t(r), x.size(), 100);
        for (std::size_t i = 0; i < x.size(); ++i) backwards[i] += part[i];
    }
    if (comm.size() > 2) CHECK(rig::digest(x) != rig::digest(backwards)); // a + b is b + a
    double far = 0; // of MPI_Allreduce's, from ours: N - 1 roundings each, of sums up to 100 N
    for (std::size_t i = 0; i < x.size(); ++i)
        far = std::max(far, std::abs(double(x[i]) - double(theirs[i])));
    CHECK(far <= 2 * (comm.size() - 1) * 100.0 * comm.size() * 0x1p-24);
}

TEST_CASE("more than MPI takes in one message of ours: 64 MiB") {
    mpi_rank comm(job());
    const std::size_t n = (std::size_t(1) << 26) + 12345;
    std::vector<std::uint8_t> x(n);
    const auto mark = [](std::size_t i) { return std::uint8_t(i * 2654435761u >> 13); };
    if (comm.rank() == 0)
        for (std::size_t i = 0; i < n; ++i) x[i] = mark(i);
    comm.broadcast(rig::span(x), 0);
    const auto right = [&] {
        for (std::size_t i = 0; i < n; ++i)
            if (x[i] != mark(i)) return false;
        return true;
    };
    CHECK(right());
    const int last = comm.size() - 1;
    if (last == 0) return;
    if (comm.rank() == 0) comm.send<std::uint8_t>(rig::view(x), last);
    if (comm.rank() == last) {
        std::fill(x.begin(), x.end(), std::uint8_t(0));
        comm.recv(rig::span(x), 0);
        CHECK(right());
    }
}

TEST_CASE("groups, also within groups and two at once") {
    mpi_rank comm(job());
    const int n = comm.size();
    const std::unique_ptr<communicator> odd = comm.split(comm.rank() % 2, -comm.rank());
    REQUIRE(odd);
    CHECK(odd->size() == (comm.rank() % 2 ? n / 2 : (n + 1) / 2));
    CHECK(odd->rank() == odd->size() - 1 - comm.rank() / 2); // keys run backwards
    const std::unique_ptr<communicator> some = comm.split(comm.rank() == 1 ? -1 : 0, 0);
    CHECK(bool(some) == (comm.rank() != 1));
    const std::unique_ptr<communicator> again = odd->split(0, 0);
    CHECK(again->rank() == odd->rank());

    std::vector<float> a(1000, 1), b(1000, 10), c(1000, 100);
    handle first = comm.start_all_reduce(rig::span(a));
    handle second = odd->start_all_reduce(rig::span(b));
    if (some) some->all_reduce(rig::span(c));
    second.wait();
    first.wait();
    CHECK(a == std::vector<float>(1000, float(n)));
    CHECK(b == std::vector<float>(1000, 10 * float(odd->size())));
    CHECK(c == std::vector<float>(1000, some ? 100 * float(some->size()) : 100));
    CHECK(odd->sum(comm.rank()) == again->sum(comm.rank()));

    every_verb::run(*again, 33); // and the others are as they were
    CHECK(comm.sum(1) == n);
}

TEST_CASE("a program that has called MPI_Init keeps its own messages") {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mpi_process of(MPI_COMM_WORLD);
    mpi_rank comm(of);
    int token = rank, got = -1;
    MPI_Request r;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
    CHECK(comm.sum(1) == comm.size()); // its messages are not taken for the program's
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % comm.size(), 5, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(got == (rank + comm.size() - 1) % comm.size());
}
