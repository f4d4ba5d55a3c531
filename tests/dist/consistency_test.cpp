// SPDX-License-Identifier: MIT
// What is to be the same on all ranks, and what is not: weights; dropout and data.
#include "mpt/dist/consistency.hpp"

#include "../train/rig.hpp"
#include "mpt/comm/world.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/train/data.hpp"
#include "mpt/train/master_weights.hpp"
#include "stages.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

gpt_config small(float dropout) {
    gpt_config c;
    c.layers = 2;
    c.heads = 2;
    c.kv_heads = 2;
    c.channels = 8;
    c.context = 6;
    c.vocabulary = 11;
    c.dropout = dropout;
    return c;
}

// A rank with a model whose weights are initialised as each rank owns them.
struct lives {
    lives(communicator& comm, int stage, float dropout = 0, std::uint64_t seed = 3)
        : pool(1), ops(pool, mem, gpt_scratch<bf16>(small(dropout), 2, 6)),
          model(small(dropout), ops, 7), acts(mem, small(dropout), 2, 6),
          rank(ops, model.map, comm, mem, {stage}) {
        for (const piece<bf16>& p : rank.s->mine(rank.weights.span())) {
            std::vector<float> first(p.data.size());
            initial_values(model.map, seed, p.begin, first);
            for (std::size_t i = 0; i < first.size(); ++i) p.data.data()[i] = bf16(first[i]);
        }
        rank.s->publish(rank.weights.span());
    }
    void check(communicator& comm) {
        check_same_weights<bf16>(ops, comm, model.map, *rank.s, rank.weights.span());
    }
    // Of the same tokens on every rank, whose first row is number `sample` of the window.
    double loss(long sample) {
        const std::vector<int> in{0, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5},
            out{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
        return model.forward(*rank.s, rank.weights.span(),
                             {rig::view(in), rig::view(out), 2, 6, 0, 1, sample}, acts);
    }

    thread_pool pool;
    memory mem;
    loops ops;
    gpt<bf16, loops> model;
    gpt_acts<bf16> acts;
    staged<bf16> rank;
};

// What check says on all ranks, the same on each, where `spoil` has been at them.
template <class Spoil>
std::string verdict(int ranks, int stage, Spoil spoil) {
    std::vector<std::string> said(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](communicator& comm) {
        lives x(comm, stage);
        spoil(comm.rank(), x);
        said[std::size_t(comm.rank())] = refusal([&] { x.check(comm); });
        comm.barrier(); // the communicator is as it was
    });
    for (const std::string& line : said) REQUIRE(line == said[0]);
    return said[0];
}
void flip(device_span<bf16> weights, std::size_t i) { weights.data()[i].bits ^= 1; }

} // namespace

TEST_CASE("initial weights agree, in every stage, on any number of ranks") {
    std::set<std::uint32_t> sums;
    for (const int ranks : {1, 2, 3, 7})
        for (int stage = 0; stage <= 3; ++stage) {
            CHECK(verdict(ranks, stage, [](int, lives&) {}) == "nothing");
            run_ranks(ranks, [&](communicator& comm) {
                lives x(comm, stage);
                std::uint32_t sum = 0;
                for (int u = 0; u < 3; ++u) {
                    const auto w = x.rank.s->acquire(x.rank.weights.span(), u);
                    sum = crc32c(std::as_bytes(std::span(w.data(), w.size())), sum);
                    x.rank.s->release(u);
                }
                if (comm.rank() == 0) sums.insert(sum);
            });
        }
    CHECK(sums.size() == 1);
}

TEST_CASE("the rank whose weights differ is named, with the tensor") {
    gpt_tensors t;
    const layout map = gpt_layout(small(0), t);
    const std::size_t at = map.tensors[std::size_t(t.block[1].fc_weight)].begin + 5;
    for (const int stage : {0, 1, 2}) {
        const auto spoil = [&](int rank, lives& x) {
            if (rank != 2) return;
            const std::size_t in_unit = at - map.units[2].begin;
            flip(stage == 0 ? x.rank.weights.span() : x.rank.cut.real(x.rank.weights.span(), 2),
                 stage == 0 ? at : in_unit);
        };
        CHECK(verdict(4, stage, spoil) ==
              "weights: rank 2 has other bits than the others in h.1.mlp.c_fc.weight (unit "
              "block 1), 1 of 28 tensors differ; go back to the last checkpoint, and look for a "
              "step that not all ranks took");
    }
    // two of five, in two tensors
    CHECK(says(verdict(5, 0,
                       [&](int rank, lives& x) {
                           if (rank == 1 || rank == 4) flip(x.rank.weights.span(), 0);
                           if (rank == 1) flip(x.rank.weights.span(), at);
                       }),
               "weights: ranks 1, 4 have other bits than the others in wte.weight (unit "
               "embedding), 2 of 28 tensors differ"));
    // one against one
    CHECK(says(verdict(2, 0,
                       [&](int r, lives& x) {
                           if (r == 0) flip(x.rank.weights.span(), 0);
                       }),
               "rank 1 has other bits"));
}

TEST_CASE("another seed on one rank is seen") {
    const std::string line = refusal([] {
        run_ranks(3, [](communicator& comm) {
            lives x(comm, 0, 0, comm.rank() == 1 ? 4 : 3);
            x.check(comm);
        });
    });
    CHECK(says(line, "rank 1 has other bits than the others in wte.weight"));
}

TEST_CASE("dropout differs from rank to rank, and is that of the joined batch") {
    std::vector<double> alone;
    run_ranks(1, [&](communicator& comm) {
        lives x(comm, 0, 0.25f);
        for (int r = 0; r < 3; ++r) alone.push_back(x.loss(2 * r));
    });
    for (int stage = 0; stage <= 3; ++stage)
        run_ranks(3, [&](communicator& comm) {
            lives x(comm, stage, 0.25f);
            const double mine = x.loss(2 * comm.rank());
            CHECK(mine == alone[std::size_t(comm.rank())]);
            CHECK(comm.max(mine) != -comm.max(-mine)); // unlike, though the tokens are the same
            // sabotage: one number for all ranks' rows, and no dropout: alike
            const double same = x.loss(0);
            CHECK(comm.max(same) == -comm.max(-same));
            lives plain(comm, stage, 0);
            const double without = plain.loss(2 * comm.rank());
            CHECK(comm.max(without) == -comm.max(-without));
        });
}

TEST_CASE("data: N ranks draw the rows of the joined batch, each its own") {
    token_data text;
    text.vocabulary = 256;
    for (int i = 0; i < 5000; ++i) text.tokens.push_back(std::uint16_t(i * i % 251));
    text.train_end = 4500;
    const auto rows = [&](long first, int B) {
        std::vector<int> in(std::size_t(B) * 6), out(in.size());
        draw_batch(text, 1, 4, first, B, 6, in, out);
        return in;
    };
    const int N = 3, B = 2, M = 2;
    const std::vector<int> joined = rows(0, N * B * M);
    std::vector<int> together;
    std::set<std::vector<int>> unlike;
    for (int k = 0; k < M; ++k)
        for (int r = 0; r < N; ++r) {
            const std::vector<int> mine = rows((k * N + r) * B, B);
            together.insert(together.end(), mine.begin(), mine.end());
            unlike.insert(mine);
        }
    CHECK(together == joined);
    CHECK(unlike.size() == std::size_t(N * M));
    CHECK(rows(0, B) == rows(0, B)); // sabotage: ranks that forget who they are see the same rows
}
