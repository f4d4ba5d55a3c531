// SPDX-License-Identifier: MIT
// The ring, the leader, the tree and servers: right to rounding, and what each rank sends is what
// the card says.
#include "mpt/comm/hierarchical.hpp"
#include "mpt/comm/leader.hpp"
#include "mpt/comm/ring.hpp"
#include "mpt/comm/tree.hpp"
#include "mpt/comm/world.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace mpt;

namespace {

template <class T>
std::vector<T> part_of(int rank, std::size_t n) {
    return rig::numbers<T>(std::uint32_t(rank), n, 100);
}

// |got - exact| <= eps (N - 1) sum |x|, for sums in any order with one rounding an addition:
// N - 1 additions, and 16 bits in addition rounded to their own eps.
template <class T>
bool near(const std::vector<T>& got, int ranks, double eps) {
    std::vector<std::vector<T>> parts;
    for (int r = 0; r < ranks; ++r) parts.push_back(part_of<T>(r, got.size()));
    for (std::size_t i = 0; i < got.size(); ++i) {
        double sum = 0, size = 0;
        for (const auto& p : parts)
            sum += double(widen(p[i])), size += std::abs(double(widen(p[i])));
        if (!(std::abs(double(widen(got[i])) - sum) <= eps * ranks * size)) return false;
    }
    return true;
}

constexpr double eps32 = 0x1p-24, eps16 = 0x1p-11, epsb = 0x1p-8;

template <class T>
void all_of_them(int ranks, std::size_t n, double eps) {
    std::vector<std::vector<T>> rings(static_cast<std::size_t>(ranks)), trees = rings;
    run_ranks(ranks, [&](communicator& comm) {
        const std::size_t me = std::size_t(comm.rank()), most = slice_of(n, ranks, 0).size;
        std::vector<T> room(n), small(most);
        const auto sends = [&](std::size_t elements, std::size_t messages) {
            comm.barrier();
            const mpt::sent s = comm.sent.of(verb::send);
            CHECK(s.elements == elements);
            CHECK(s.messages == messages);
            comm.sent.clear();
            comm.barrier();
        };
        const std::size_t size = std::size_t(ranks);

        rings[me] = part_of<T>(comm.rank(), n);
        ring_all_reduce(comm, rig::span(rings[me]), rig::span(small));
        // all slices but mine, and then all but the next rank's
        sends(2 * n - slice_of(n, ranks, comm.rank()).size -
                  slice_of(n, ranks, (comm.rank() + 1) % ranks).size,
              2 * (size - 1));
        if (n % size == 0) CHECK(2 * n - 2 * most == 2 * n * (size - 1) / size);

        std::vector<T> x = part_of<T>(comm.rank(), n);
        leader_all_reduce(comm, rig::span(x), rig::span(room));
        sends(me == 0 ? n * (size - 1) : n, me == 0 ? size - 1 : 1);
        CHECK(near(x, ranks, eps));

        trees[me] = part_of<T>(comm.rank(), n);
        tree_all_reduce(comm, rig::span(trees[me]), rig::span(room));
        std::size_t children = 0;
        for (std::size_t s = 1; s < size && me % (2 * s) == 0; s *= 2) children += me + s < size;
        sends(n * (children + (me > 0)), children + (me > 0));
    });
    for (int r = 0; r < ranks; ++r) {
        CHECK(rig::same_bits(rings[std::size_t(r)], rings[0])); // one order a slice, on all ranks
        CHECK(rig::same_bits(trees[std::size_t(r)], trees[0]));
    }
    CHECK(near(rings[0], ranks, eps));
    CHECK(near(trees[0], ranks, eps));
}

} // namespace

TEST_CASE("ring, leader and tree: the sum, and what each rank sends") {
    for (int ranks = 1; ranks <= 9; ++ranks)
        for (const std::size_t n : {std::size_t(0), std::size_t(1), std::size_t(ranks),
                                    std::size_t(ranks) + 1, std::size_t(2520)})
            all_of_them<float>(ranks, n, eps32);
    all_of_them<fp16>(5, 1001, eps16);
    all_of_them<bf16>(5, 1001, epsb);
    all_of_them<double>(3, 1001, 0x1p-53);
}

TEST_CASE("sabotage: a rank counted twice is beyond the bound") {
    std::vector<float> x(100);
    for (int r = 0; r < 3; ++r) {
        const std::vector<float> part = part_of<float>(r, 100);
        for (std::size_t i = 0; i < 100; ++i) x[i] += part[i];
    }
    CHECK(near(x, 3, eps32));
    const std::vector<float> again = part_of<float>(1, 100);
    for (std::size_t i = 0; i < 100; ++i) x[i] += again[i];
    CHECK(!near(x, 3, eps32));
}

TEST_CASE("1e8, 1, -1e8, 1: rank order makes 1 everywhere, the ring 0, 1, 0, 1") {
    run_ranks(4, [](communicator& comm) {
        const float mine[] = {1e8f, 1, -1e8f, 1};
        std::vector<float> x(4, mine[comm.rank()]), y = x, room(1);
        comm.all_reduce(rig::span(x));
        CHECK(x == std::vector<float>{1, 1, 1, 1});
        ring_all_reduce(comm, rig::span(y), rig::span(room));
        CHECK(y == std::vector<float>{0, 1, 0, 1});
    });
}

TEST_CASE("servers: the sum, and what goes inside and between") {
    for (const int each : {1, 2, 3, 4})
        for (const int count : {1, 2, 3}) {
            const int ranks = each * count;
            const std::size_t n = std::size_t(ranks) * 10;
            std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
            run_ranks(ranks, [&](communicator& comm) {
                std::vector<float>& x = sums[std::size_t(comm.rank())];
                x = part_of<float>(comm.rank(), n);
                servers two(comm, each);
                CHECK(two.inside->rank() == comm.rank() % each);
                CHECK(two.between->rank() == comm.rank() / each);
                two.inside->sent.clear(), two.between->sent.clear();
                comm.barrier();
                two.all_reduce(rig::span(x));
                comm.barrier();
                const std::size_t L = std::size_t(each), M = std::size_t(count);
                CHECK(two.inside->sent.total().elements == 2 * n * (L - 1) / L);
                CHECK(two.between->sent.total().elements == 2 * (n / L) * (M - 1) / M);
            });
            for (const auto& x : sums) CHECK(rig::same_bits(x, sums[0]));
            CHECK(near(sums[0], ranks, eps32));
        }
    CHECK(rig::refusal([] {
              run_ranks(3, [](communicator& comm) { servers(comm, 2); });
          }).find("servers: 3 ranks, 2 in each server; wanted a number that divides the ranks") !=
          std::string::npos);
    CHECK(rig::says(rig::refusal([] {
                        run_ranks(2, [](communicator& comm) {
                            std::vector<float> x(3);
                            servers(comm, 2).all_reduce(rig::span(x));
                        });
                    }),
                    "servers: 3 elements for 2 ranks; pad to a multiple"));
}
