// SPDX-License-Identifier: MIT
// Bytes a parameter, as the ZeRO paper has them: of units that need no padding, by the ledger.
#include "../train/rig.hpp"
#include "mpt/comm/world.hpp"
#include "mpt/numeric/bf16.hpp"
#include "mpt/train/master_weights.hpp"
#include "stages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

using namespace mpt;

namespace {

constexpr std::size_t grain = partition::grain;

layout even() { // for up to 8 ranks
    layout map;
    for (const std::size_t n : {std::size_t(3), std::size_t(1), std::size_t(2)}) {
        map.add_unit("unit " + std::to_string(n));
        map.add("x" + std::to_string(n), {n * 8 * grain}, 1);
    }
    return map;
}

/// What a rank holds between two steps, a parameter; and that a step leaves nothing behind.
template <class T>
double held(int ranks, const plan& p) {
    const layout map = even();
    std::vector<double> bytes(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](communicator& comm) {
        rig::machine m(1);
        const std::size_t before = m.mem.books.total();
        {
            staged<T> r(m.on, map, comm, m.mem, p);
            buffer<float> master(m.mem, kind::master, master_size<T>(r.n.owned), "master");
            buffer<float> moments(m.mem, kind::moments, 2 * r.n.owned, "moments");
            const std::size_t lasting = m.mem.books.total();
            for (int k = 0; k < p.micros; ++k)
                for (int u = 2; u >= 0; --u) {
                    const auto w = r.s->acquire(r.weights.span(), u);
                    CHECK(w.size() == map.units[std::size_t(u)].size());
                    const device_span<T> to = r.s->collect(r.grads, u);
                    std::fill_n(to.data(), to.size(), T(1.0f));
                    r.s->release(u);
                    r.s->ready(r.grads, u, k);
                }
            r.s->finish(r.grads);
            r.s->publish(r.weights.span());
            CHECK(m.mem.books.total() == lasting);
            bytes[std::size_t(comm.rank())] = double(lasting - before) / double(map.size());
        }
        CHECK(m.mem.books.total() == before);
    });
    for (const double x : bytes) CHECK(x == bytes[0]); // nothing is padded: all alike
    return bytes[0];
}

const int ranks_of[] = {1, 2, 4, 8};

} // namespace

TEST_CASE("16 bits, Adam: 16, 4 + 12/N, 2 + 14/N, 16/N bytes a parameter") {
    for (const int N : ranks_of) {
        CHECK(held<bf16>(N, {0}) == 16);
        CHECK(held<bf16>(N, {1}) == 4 + 12.0 / N);
        CHECK(held<bf16>(N, {2}) == 2 + 14.0 / N);
        CHECK(held<bf16>(N, {3}) == 16.0 / N);
    }
    CHECK(held<bf16>(4, {2}) != 4 + 12.0 / 4); // sabotage: another stage's formula
}

TEST_CASE("fp32 without a master of its own: 16, 8 + 8/N, 4 + 12/N, 16/N") {
    for (const int N : ranks_of) {
        CHECK(held<float>(N, {0}) == 16);
        CHECK(held<float>(N, {1}) == 8 + 8.0 / N);
        CHECK(held<float>(N, {2}) == 4 + 12.0 / N);
        CHECK(held<float>(N, {3}) == 16.0 / N);
    }
}

TEST_CASE("sums of several micro-batches: 4 more, or 4/N where each one is reduced") {
    const reduce_mode once = reduce_mode::once, every = reduce_mode::every;
    for (const int N : {2, 4, 8})
        for (const int M : {2, 3}) {
            CHECK(held<bf16>(N, {0, M, once}) == 16 + 4);
            CHECK(held<bf16>(N, {0, M, every}) == 16 + 4);
            CHECK(held<bf16>(N, {1, M, once}) == 4 + 12.0 / N + 4);
            CHECK(held<bf16>(N, {1, M, every}) == 4 + 12.0 / N + 4.0 / N);
            CHECK(held<bf16>(N, {2, M, every}) == 2 + 14.0 / N + 4.0 / N);
            CHECK(held<bf16>(N, {3, M, every}) == 16.0 / N + 4.0 / N);
            // sums are reduced in fp32: no shard of 16-bit gradients is kept beside them
            CHECK(held<bf16>(N, {2, M, once}) == 2 + 12.0 / N + 4);
            CHECK(held<bf16>(N, {3, M, once}) == 14.0 / N + 4);
        }
}

TEST_CASE("who asks stage 2 or 3 to reduce once is told what it costs") {
    const layout map = even();
    const partition cut(map, 4);
    const strategy_sizes n = sizes_of(2, map, cut, 0, 3, reduce_mode::once);
    CHECK(remark(2, n, 3, reduce_mode::once) ==
          "zero2 with gradients reduced once a window: each rank holds a whole sum of them, 49152 "
          "bytes in fp32; where each micro-batch is reduced it holds a shard");
    CHECK(remark(2, n, 1, reduce_mode::once).empty());
    CHECK(remark(2, n, 3, reduce_mode::every).empty());
    CHECK(remark(1, n, 3, reduce_mode::once).empty());
}

TEST_CASE("what does not fit is refused by the unit's name, and every rank ends") {
    const layout map = even();
    std::string line;
    try {
        run_ranks(2, [&](communicator& comm) {
            rig::machine m(1);
            memory tight(comm.rank() == 1 ? 4096 : 0); // of rank 1's device
            zero3<float> s(m.on, map, comm, tight, 1);
            std::vector<float> weights(partition(map, 2).packed_size());
            s.acquire(rig::view(weights), 0);
            s.release(0);
        });
    } catch (const error& e) {
        line = e.what();
    }
    CAPTURE(line);
    CHECK(line.find("rank 1") != std::string::npos);
    CHECK(line.find("gathered weights of unit 3 asks 24576 bytes; of the budget of 4096") !=
          std::string::npos);
}
