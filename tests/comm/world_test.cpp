// SPDX-License-Identifier: MIT
#include "mpt/comm/world.hpp"

#include "every_verb.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool checked = true; // ten times slower
#else
constexpr bool checked = false;
#endif

float number(int rank, std::size_t i) { return float(rank + 1) * (1 + 0.25f * float(i % 7)); }

// All verbs on n ranks and `size` elements a rank, against what they are defined to be.
void every_verb_is_right(communicator& comm, std::size_t size) {
    const std::size_t n = std::size_t(comm.size());
    std::vector<float> x(size), want(size), all(size * n), part(size), to(size * n);
    for (std::size_t i = 0; i < size; ++i) {
        x[i] = want[i] = number(0, i);
        for (std::size_t r = 1; r < n; ++r) want[i] += number(int(r), i);
        x[i] = number(comm.rank(), i);
    }
    const std::vector<float> mine = x;
    std::size_t wrong = 0; // counted: a CHECK each would take most of the time
    comm.all_reduce(rig::span(x));
    wrong += !rig::same_bits(x, want);

    comm.all_gather(rig::span(all), rig::view(mine));
    for (std::size_t i = 0; i < all.size(); ++i) wrong += all[i] != number(int(i / size), i % size);

    comm.all_to_all(rig::span(to), rig::view(all)); // my part of everybody's `all`: number(me)
    for (std::size_t i = 0; i < to.size(); ++i) wrong += to[i] != mine[i % size];

    comm.reduce_scatter(rig::span(part), rig::view(all));
    for (std::size_t i = 0; i < size; ++i) wrong += part[i] != float(n) * number(comm.rank(), i);

    std::vector<float> b = mine;
    comm.broadcast(rig::span(b), comm.size() - 1);
    for (std::size_t i = 0; i < size; ++i) wrong += b[i] != number(comm.size() - 1, i);
    CHECK(wrong == 0);
}

} // namespace

TEST_CASE("the verbs on 1 to 16 ranks, of sizes around the number of ranks") {
    for (int n = 1; n <= 16; ++n)
        run_ranks(n, [&](communicator& comm) {
            const std::size_t ranks = std::size_t(n);
            for (const std::size_t size : {std::size_t(0), std::size_t(1), std::size_t(2),
                                           ranks - 1, ranks, ranks + 1, std::size_t(4096)})
                every_verb_is_right(comm, size);
        });
}

TEST_CASE("a million and seven elements") {
    for (const int n : {1, 2, 3, 7, 16})
        run_ranks(n, [&](communicator& comm) {
            std::vector<float> x(checked ? 10007 : 1000007);
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = number(comm.rank(), i);
            comm.all_reduce(rig::span(x));
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                float want = number(0, i);
                for (int r = 1; r < n; ++r) want += number(r, i);
                wrong += x[i] != want;
            }
            CHECK(wrong == 0);
        });
}

TEST_CASE("every type, started or not: the same bits on all ranks, and again") {
    for (const int n : {1, 2, 3, 8}) {
        std::vector<std::vector<float>> reduced(static_cast<std::size_t>(n));
        std::uint64_t before = 0;
        for (int again = 0; again < 2; ++again) {
            std::vector<every_verb::outcome> of(static_cast<std::size_t>(n));
            run_ranks(n, [&](communicator& comm) {
                of[std::size_t(comm.rank())] = every_verb::run(comm, 1001);
                std::vector<float>& x = reduced[std::size_t(comm.rank())];
                x = every_verb::mine<float>(comm, 1, 1001);
                comm.all_reduce(rig::span(x));
            });
            std::uint64_t bits = 0;
            for (const auto& o : of) bits = rig::digest(&o.bits, sizeof o.bits, bits);
            CHECK((again == 0 || bits == before));
            before = bits;
            for (const auto& x : reduced) CHECK(rig::same_bits(x, reduced[0]));
        }
    }
}

TEST_CASE("what is started goes on, and is waited for in any order") {
    run_ranks(4, [](communicator& comm) {
        std::vector<float> a(100, 1), b(100, float(comm.rank())), c(8, 3), from(400), to(400);
        for (std::size_t i = 0; i < 400; ++i) from[i] = float(comm.rank() * 10) + float(i / 100);
        handle ha = comm.start_all_reduce(rig::span(a));
        handle hb = comm.start_broadcast(rig::span(b), 2);
        handle hc = comm.start_all_to_all(rig::span(to), rig::view(from));
        handle hd = comm.start_barrier();
        comm.all_reduce(rig::span(c)); // after all of them
        hc.wait(), hd.wait(), hb.wait(), ha.wait();
        CHECK(a[99] == 4);
        CHECK(b[99] == 2);
        CHECK(c[7] == 12);
        for (int r = 0; r < 4; ++r) CHECK(to[std::size_t(r) * 100] == float(r * 10 + comm.rank()));
    });
}

TEST_CASE("two ranks that send to each other: one of the two is started") {
    run_ranks(2, [](communicator& comm) {
        const int other = 1 - comm.rank();
        std::vector<float> mine(5, float(comm.rank())), theirs(5);
        handle coming = comm.start_recv(rig::span(theirs), other);
        comm.send(rig::view(mine), other);
        coming.wait();
        CHECK(theirs[4] == float(other));
        handle going = comm.start_send(rig::span(mine), other);
        comm.recv(rig::span(theirs), other);
        going.wait();
    });
}

TEST_CASE("groups: who gives the same color, by key") {
    run_ranks(7, [](communicator& comm) {
        const int color = comm.rank() == 5 ? -1 : comm.rank() % 2;
        const auto part = comm.split(color, -comm.rank());
        if (color < 0) {
            CHECK(!part);
            return;
        }
        const int size = color == 0 ? 4 : 2; // 6 4 2 0, and 3 1
        REQUIRE(part->size() == size);
        CHECK(part->rank() == (color == 0 ? (6 - comm.rank()) / 2 : (3 - comm.rank()) / 2));
        CHECK(part->sum(comm.rank()) == (color == 0 ? 12 : 4));
        every_verb_is_right(*part, 33);
        const auto pair = part->split(part->rank() / 2, 0); // groups of groups
        CHECK(pair->sum(1) == 2);
    });
}

TEST_CASE("one rank has an infinity: all are told before any decides") {
    run_ranks(4, [](communicator& comm) {
        std::vector<float> grads(comm.rank() == 3 ? 0 : 3, 1); // one has no shard
        if (comm.rank() == 2) grads[1] = INFINITY;
        bool finite = true;
        for (const float g : grads) finite = finite && std::isfinite(g);
        const bool everywhere = comm.all(finite);
        CHECK(!everywhere);
        const float scale = everywhere ? 2.0f : 1.0f;
        CHECK(comm.sum(scale) == 4);
        CHECK(finite == (comm.rank() != 2)); // sabotage: what one rank sees is another answer
    });
}

TEST_CASE("ranks that branch on what they alone have seen meet at different verbs") {
    const std::string said = refusal([] {
        run_ranks(2, [](communicator& comm) {
            std::vector<float> bucket(4, 1);
            if (comm.rank() == 0) comm.all_reduce(rig::span(bucket)); // "used here only"
            comm.barrier();
        });
    });
    CHECK(says(said, "collective 1: rank 0 calls all_reduce of 4 fp32, rank 1 barrier of 0 byte; "
                     "all must call the same, in the same order"));
}

TEST_CASE("a sum over 64 ranks in fp16: scaled by 8 before and after, it fits") {
    run_ranks(64, [](communicator& comm) {
        std::vector<fp16> x(3, fp16(2048.0f)), y(3, fp16(2048.0f / 8));
        comm.all_reduce(rig::span(x));
        comm.all_reduce(rig::span(y));
        CHECK(std::isinf(float(x[0]))); // 131072
        CHECK(float(y[2]) / 8 == 2048);
    });
}

TEST_CASE("buffers that overlap are refused, but for a rank's own part") {
    run_ranks(2, [](communicator& comm) {
        std::vector<float> all(8);
        const auto part = [&](int r) { return rig::span(all).subspan(std::size_t(r) * 4, 4); };
        const int me = comm.rank();
        comm.all_gather(rig::span(all), part(me));
        comm.reduce_scatter(part(me), rig::view(all));
        const std::string they = "the two buffers overlap; they may where one is part ";
        CHECK(says(refusal([&] { comm.all_gather(rig::span(all), part(1 - me)); }), they));
        CHECK(says(refusal([&] { comm.reduce_scatter(part(1 - me), rig::view(all)); }), they));
        CHECK(refusal([&] { comm.all_to_all(rig::span(all), rig::view(all)); }) ==
              "all_to_all: the two buffers overlap; take two");
        std::vector<float> five(5);
        CHECK(refusal([&] { comm.all_gather(rig::span(all), rig::view(five)); }) ==
              "all_gather: 8 elements and a part of 5 for each of 2 ranks; wanted 10, pad what "
              "does not divide");
        CHECK(refusal([&] { comm.broadcast(rig::span(all), 2); }) ==
              "broadcast: rank 2 of 2; wanted 0 to 1");
    });
}

TEST_CASE("what each verb sends is its formula") {
    for (const int n : {1, 2, 3, 8})
        run_ranks(n, [&](communicator& comm) {
            const std::size_t ranks = std::size_t(n), others = ranks - 1, part = 10;
            std::vector<fp16> x(ranks * part), y(x), mine(part);
            const auto sends = [&](verb v, std::size_t elements, std::size_t messages) {
                CHECK(comm.sent.of(v) == mpt::sent{1, elements, 2 * elements, messages});
                CHECK(comm.sent.of(v, element::fp16) == comm.sent.of(v));
                comm.sent.clear();
            };
            comm.all_reduce(rig::span(x));
            comm.barrier(); // nobody enters anything any more
            sends(verb::all_reduce, 2 * part * others, 2 * others);
            comm.reduce_scatter(rig::span(mine), rig::view(x));
            comm.barrier();
            sends(verb::reduce_scatter, part * others, others);
            comm.all_gather(rig::span(x), rig::view(mine));
            comm.barrier();
            sends(verb::all_gather, part * others, others);
            comm.all_to_all(rig::span(y), rig::view(x));
            comm.barrier();
            sends(verb::all_to_all, part * others, others);
            comm.broadcast(rig::span(mine), n - 1);
            comm.barrier();
            const bool root = comm.rank() == n - 1;
            sends(verb::broadcast, root ? part * others : 0, root ? others : 0);
        });
}

TEST_CASE("rounds without an end") {
    const bool soak = std::getenv("MPT_SOAK") != nullptr;
    const int rounds = soak ? 100000 : checked ? 500 : 5000;
    run_ranks(4, [&](communicator& comm) {
        std::vector<float> x(7), y(5), to(5);
        const auto half = comm.split(comm.rank() % 2, 0);
        const int next = (comm.rank() + 1) % 4, before = (comm.rank() + 3) % 4;
        int wrong = 0;
        for (int i = 0; i < rounds; ++i) {
            x.assign(7, float(comm.rank() + i % 5));
            y.assign(5, float(comm.rank()));
            handle sum = comm.start_all_reduce(rig::span(x));
            handle going = comm.start_send(rig::view(y), next);
            comm.recv(rig::span(to), before);
            if (i % 3 == 0) half->barrier();
            going.wait();
            sum.wait();
            wrong += x[6] != float(6 + 4 * (i % 5)) || to[4] != float(before);
            wrong += !comm.all(true);
        }
        CHECK(wrong == 0);
    });
}
