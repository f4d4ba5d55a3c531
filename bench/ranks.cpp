// SPDX-License-Identifier: MIT
// ranks.cpp -- training steps on ranks that are threads: ZeRO against ddp, many against few.
#include "common.hpp"
#include "products.hpp" // cblas_threads

#include "mpt/comm/world.hpp"           // run_ranks
#include "mpt/dist/ddp.hpp"             // ddp
#include "mpt/dist/global_norm.hpp"     // norm
#include "mpt/dist/strategy_sizes.hpp"  // sizes_of
#include "mpt/dist/zero1.hpp"           // zero1
#include "mpt/dist/zero2.hpp"           // zero2
#include "mpt/dist/zero3.hpp"           // zero3
#include "mpt/nn/gpt.hpp"               // gpt
#include "mpt/nn/gpt_scratch.hpp"       // gpt_scratch
#include "mpt/nn/loops.hpp"             // loops
#include "mpt/train/adamw.hpp"          // adamw
#include "mpt/train/clip.hpp"           // clip_factor
#include "mpt/train/master_weights.hpp" // master_of, cast

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace {

constexpr const char* about =
    "A training step (forward, backward, inspect, clip, AdamW) in fp16 on ranks that are threads,\n"
    "one thread of products each: ZeRO 1, 2 and 3 against ddp with gradients reduced alike, and 8\n"
    "ranks against 2, all of them with the same batch a rank.";

using T = mpt::fp16;

/// What one rank has: as in the main program.
struct rank_step {
    rank_step(mpt::communicator& comm, const mpt::gpt_config& c, int B, int T_, int stage,
              mpt::reduce_mode mode)
        : comm(comm), pool(1), ops(pool, mem, mpt::gpt_scratch<T>(c, B, T_)), model(c, ops),
          cut(model.map, comm.size()),
          sizes(mpt::sizes_of(stage, model.map, cut, comm.rank(), 1, mode)),
          weights(mem, mpt::kind::weights, sizes.weights, "weights"),
          grads(mem, mpt::kind::grads, sizes.micro, "gradients"),
          master(mem, mpt::kind::master, sizes.owned, "master weights"),
          m(mem, mpt::kind::moments, sizes.owned, "m"),
          v(mem, mpt::kind::moments, sizes.owned, "v"),
          tokens(mem, mpt::kind::data, 2 * std::size_t(B) * std::size_t(T_), "tokens"),
          acts(mem, c, B, T_) {
        if (stage == 0) strategy = std::make_unique<mpt::ddp<T>>(ops, model.map, comm, 1, mode);
        if (stage == 1) strategy = std::make_unique<mpt::zero1<T>>(ops, model.map, comm, 1, mode);
        if (stage == 2)
            strategy = std::make_unique<mpt::zero2<T>>(ops, model.map, comm, mem, 1, mode);
        if (stage == 3)
            strategy = std::make_unique<mpt::zero3<T>>(ops, model.map, comm, mem, 1, mode);
        const mpt::pieces<T> mine = strategy->mine(weights.span());
        owned = {mpt::master_of(master.span(), mine), m.span(), v.span(), mine, {}};
        for (const auto& piece : owned.master)
            mpt::initial_values(model.map, 1, piece.begin, {piece.data.data(), piece.data.size()});
        mpt::cast(ops, owned.master, owned.weights);
        strategy->publish(weights.span());
        ops.fill(m.span(), 0.0f);
        ops.fill(v.span(), 0.0f);
        const std::size_t n = tokens.size() / 2;
        for (std::size_t i = 0; i < 2 * n; ++i)
            tokens.span().data()[i] =
                int(mpt::philox({{std::uint32_t(i), std::uint32_t(comm.rank()), 0, 0}}, 1, 2).x[0] %
                    std::uint32_t(c.vocabulary));
        at = {tokens.span().first(n), tokens.span().subspan(n, n), B, T_, 0, 0, 0};
    }

    void run() {
        const float S = 1024;
        mpt::gradients<T> g{grads.span(), {}};
        model.forward(*strategy, weights.span(), at, acts);
        model.backward(*strategy, weights.span(), at, acts, S / float(comm.size() * at.B * at.T),
                       g);
        const auto mine = strategy->finish(g);
        const mpt::health health = mpt::inspect(ops, mine);
        const double norm = mpt::norm(*strategy, model.map, mine, health) / S;
        mpt::check(comm.all(health.finite), "step: gradients overflow, it would be skipped");
        adam.step(ops, model.map, owned, mine, mpt::clip_factor(norm, 1.0) / S, 1e-5);
        strategy->publish(weights.span());
    }

    mpt::communicator& comm;
    mpt::thread_pool pool;
    mpt::memory mem;
    mpt::loops ops;
    mpt::gpt<T, mpt::loops> model;
    mpt::partition cut;
    mpt::strategy_sizes sizes;
    mpt::buffer<T> weights, grads;
    mpt::buffer<float> master, m, v;
    mpt::buffer<int> tokens;
    mpt::gpt_acts<T> acts;
    std::unique_ptr<mpt::strategy<T>> strategy;
    mpt::optimizer_state<T> owned;
    mpt::adamw adam;
    mpt::batch at;
};

/// Ranks that wait for the next step between measurements.
class team {
public:
    team(int ranks, const mpt::gpt_config& c, int B, int T_, int stage,
         mpt::reduce_mode mode = mpt::reduce_mode::every)
        : ranks_(ranks), thread_([=, this] {
              mpt::run_ranks(ranks, [&](mpt::communicator& comm) {
                  rank_step step(comm, c, B, T_, stage, mode);
                  for (long k = 0; next(k); ++k) {
                      step.run();
                      done();
                  }
              });
          }) {}
    ~team() {
        {
            const std::lock_guard hold(lock_);
            ending_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    /// One step of all ranks.
    void run() {
        std::unique_lock hold(lock_);
        finished_ = 0;
        ++asked_;
        changed_.notify_all();
        changed_.wait(hold, [&] { return finished_ == ranks_; });
    }

private:
    bool next(long k) {
        std::unique_lock hold(lock_);
        changed_.wait(hold, [&] { return ending_ || asked_ > k; });
        return asked_ > k;
    }
    void done() {
        {
            const std::lock_guard hold(lock_);
            ++finished_;
        }
        changed_.notify_all();
    }

    int ranks_, finished_ = 0;
    long asked_ = 0; // steps
    bool ending_ = false;
    std::mutex lock_;
    std::condition_variable changed_;
    std::thread thread_; // the last: it uses all of these
};

} // namespace

int main(int argc, char** argv) {
    const bench::options o = bench::parse(argc, argv, "ranks", about);
    return bench::guarded("ranks", [&] {
        bench::table table(o, "ranks");
        mpt::gpt_config c{6, 6, 6, 384, 256, 256};
        if (o.quick) c = {1, 2, 2, 32, 32, 256};
        const int T64 = o.size(64, 16), B = 4;
        const double tokens = double(B) * T64;
        const auto one_thread = [] { bench::cblas_threads(1); };

        const char* const rows[] = {"", "zero1 of ddp", "zero2 of ddp", "zero3 of ddp"};
        for (int stage = 1; stage <= 3; ++stage) {
            if (!table.wants(rows[stage])) continue;
            team ddp(2, c, B, T64, 0), zero(2, c, B, T64, stage);
            table.compare(rows[stage], "tokens/s", stage == 3 ? 1 / 1.25 : 1 / 1.05,
                          {"", 2 * tokens, [&] { zero.run(); }, one_thread},
                          {"ddp", 2 * tokens, [&] { ddp.run(); }, one_thread});
        }
        if (!table.wants("8 ranks of 2")) return;
        team many(8, c, B, T64, 0), few(2, c, B, T64, 0);
        table.compare("8 ranks of 2", "tokens/s", 0.8,
                      {"", 8 * tokens, [&] { many.run(); }, one_thread},
                      {"2 ranks", 2 * tokens, [&] { few.run(); }, one_thread});
    });
}
