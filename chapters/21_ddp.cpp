// SPDX-License-Identifier: MIT
// Data-parallel training: gradients travel in buckets while backward goes on, and every rank ends
// with the same bits.
//
// broken: --sabotage no-agreement => [FAILS] after step 4 rank 1's weights are not rank 0's
// broken: --sabotage no-agreement => [FAILS] rank 1 overflows in step 4, and all ranks skip it
// broken: --sabotage arrival-order => rank 1: ready: block 2 of micro-batch 0, wanted block 3
// broken: --sabotage mean-of-means => [FAILS] the gradient is the joined batch's, to rounding
// with: --ranks 3 --bucket 1 => [holds] 5 buckets start from the last unit to the first
// with: --ranks 2 --bucket 100000 => [holds] 1 buckets start from the last unit to the first
#include "common/args.hpp"        // arguments: the flags
#include "common/claims.hpp"      // claims: what is proved
#include "common/rank_tables.hpp" // held_table, sent_table: measured beside formula
#include "common/timeline.hpp"    // timeline: the order of events

#include "mpt/dist/bucket.hpp" // buckets

using mpt::communicator, mpt::fp16, mpt::reduce_mode;

struct options {
    std::string sabotage = "none", svg;
    int ranks = 4;
    std::size_t bucket = 450; // KB: two blocks of the model here
};

//! [watched]
// ddp, and a note of what happens. One event: a unit's gradients are ready, or a bucket starts.
struct event {
    bool bucket;
    int unit; // a bucket's first
    bool operator==(const event&) const = default;
};
struct watched_ddp : mpt::ddp<fp16> {
    using mpt::ddp<fp16>::ddp;
    std::vector<event> seen;

    void ready(mpt::gradients<fp16>& grads, int unit, int micro) override {
        seen.push_back({false, unit});
        narrate.tell = [&](const std::string&) { seen.push_back({true, unit}); };
        mpt::ddp<fp16>::ready(grads, unit, micro);
    }
};
//! [watched]

//! [faults]
// Wrong: a rank asks its own gradients, before they are summed, whether to take the step.
struct own_opinion : mpt::ddp<fp16> {
    own_opinion(ranks_run<fp16>& r)
        : mpt::ddp<fp16>(r.ops, r.model.map, r.comm, r.plan.M, r.plan.mode), run(r) {}
    void ready(mpt::gradients<fp16>& grads, int unit, int micro) override {
        const mpt::pieces<const fp16> mine{{collected(grads, unit), 0}};
        finite &= mpt::inspect(run.ops, mine).finite;
        mpt::ddp<fp16>::ready(grads, unit, micro);
    }
    mpt::device_span<const fp16> collected(mpt::gradients<fp16>& grads, int unit) {
        const mpt::unit_info& u = run.model.map.units[std::size_t(unit)];
        return grads.micro.subspan(u.begin, u.size());
    }
    ranks_run<fp16>& run;
    bool finite = true;
};
// Wrong: whichever is done first goes first, and rank 1 is done with block 2 before block 3.
struct by_arrival : mpt::ddp<fp16> {
    using mpt::ddp<fp16>::ddp;
    void ready(mpt::gradients<fp16>& grads, int unit, int micro) override {
        if (narrate.rank == 1 && unit == 4) return; // block 3 comes ...
        mpt::ddp<fp16>::ready(grads, unit, micro);
        if (narrate.rank == 1 && unit == 3) mpt::ddp<fp16>::ready(grads, 4, micro); // ... here
    }
};
//! [faults]

mpt::gpt_config model() {
    mpt::gpt_config c;
    c.layers = 4, c.channels = 64, c.context = 64, c.dropout = 0.1f;
    return c;
}

void break_it(ranks_run<fp16>& run, const std::string& how) {
    const rank_plan& p = run.plan;
    if (how == "arrival-order")
        run.use(
            std::make_unique<by_arrival>(run.ops, run.model.map, run.comm, p.M, p.mode, p.bucket));
    if (how == "no-agreement") {
        auto s = std::make_unique<own_opinion>(run);
        run.agree = [own = s.get()](bool) { return std::exchange(own->finite, true); };
        run.clip = [](double, auto&) { return 1; }; // which refuses a norm of NaN
        run.use(std::move(s));
    }
}

// ---- the order of events ----

std::vector<event> one_window(communicator& comm, const rank_plan& p) {
    ranks_run<fp16> run(comm, model(), p);
    windows data(run.ops, run.mem, "", p.M, p.B, 64, comm.rank(), comm.size());
    auto s = std::make_unique<watched_ddp>(run.ops, run.model.map, comm, p.M, p.mode, p.bucket);
    std::vector<event>& seen = s->seen;
    run.use(std::move(s));
    run.step(data(0));
    const std::size_t units = run.model.map.units.size();
    return {seen.begin() + long(units * std::size_t(p.M - 1)), seen.end()}; // the last micro-batch
}

void events(const options& o, const rank_plan& p, claims& claim) {
    mpt::gpt_tensors t;
    const mpt::layout map = mpt::gpt_layout(model(), t);
    const auto cut = mpt::buckets(map, sizeof(float), p.bucket);
    const auto found = on_ranks(o.ranks, [&](communicator& comm) { return one_window(comm, p); });
    //! [wanted]
    std::vector<event> wanted; // units from the last to the first, a bucket behind its last one
    for (const mpt::bucket& b : cut) {
        for (int u = b.end; u-- > b.first;) wanted.push_back({false, u});
        wanted.push_back({true, b.first});
    }
    //! [wanted]
    timeline picture{"The last micro-batch of a window on rank 0",
                     "events, in order",
                     {"backward", "all_reduce"},
                     {}};
    std::printf("the last micro-batch of a window on rank 0:\n");
    double at = 0;
    std::size_t before = 0; // the span of the bucket before, which ends where this one begins
    for (const event& e : found[0]) {
        const std::string& name = map.units[std::size_t(e.unit)].name;
        if (e.bucket) {
            if (before > 0) picture.spans[before].to = at;
            before = picture.spans.size();
            picture.spans.push_back({1, at, at + 1, name == "embedding" ? name : name + " ...", 1});
            std::printf("%16s a bucket, %s first: its all_reduce starts\n", "", name.c_str());
        } else {
            picture.spans.push_back({0, at, at + 1, name, 0}), at += 1;
            std::printf("%14s is ready\n", name.c_str());
        }
    }
    picture.spans.push_back({0, at, at + 1, "finish", 4});
    std::printf("%14s waits for all\n\n", "finish");
    if (!o.svg.empty())
        mpt::check(picture.save(o.svg), "--svg ", o.svg, ": cannot be written; give another path");
    // expect: [holds] 3 buckets start from the last unit to the first, all but one before backward
    claim(std::all_of(found.begin(), found.end(), [&](const auto& f) { return f == wanted; }),
          mpt::join(cut.size(),
                    " buckets start from the last unit to the first, all but one before "
                    "backward ends"));
}

// ---- the same gradient as one rank's ----

// The sums of a window's gradients over N ranks, in fp32. rows: of a micro-batch, on each.
std::vector<float> gradient(int N, int rows, int ranks, bool of_means) {
    return on_ranks(N, [&](communicator& comm) {
        rank_plan p;
        p.B = rows, p.overflow = -1;
        ranks_run<float> run(comm, model(), p);
        windows data(run.ops, run.mem, "", p.M, p.B, 64, comm.rank(), N);
        const window w = data.make(0, p.M, [&](long row, std::span<int> targets) {
            for (int t = 64 >> (row / 2 % ranks); t < 64; ++t) // unlike many targets
                targets[std::size_t(t)] = mpt::ignored_target;
        });
        const double all = comm.sum(double(w.tokens));
        if (of_means) run.seed = [=](auto&) { return all / (double(w.tokens) * N); };
        std::vector<float> g(run.grads.sum.size());
        run.agree = [&](bool finite) { // between the sum over ranks and the step
            run.ops.copy_to_host(g, run.grads.sum);
            return comm.all(finite);
        };
        run.step(w);
        return g;
    })[0];
}

int ddp(const options& o) {
    rank_plan p;
    p.bucket = o.bucket * 1000;
    claims claim;
    events(o, p, claim);

    const auto train = [&](reduce_mode mode) {
        rank_plan q = p;
        q.mode = mode;
        return on_ranks(o.ranks, [&](communicator& comm) {
            return train_rank<fp16>(comm, model(), q,
                                    [&](auto& run) { break_it(run, o.sabotage); });
        });
    };
    const std::vector<trained> once = train(reduce_mode::once), every = train(reduce_mode::every);
    std::printf("loss %.4f -> %.4f; weights of rank 0: %08x, of rank 1: %08x\n\n",
                once[0].losses.front(), once[0].losses.back(), once[0].digests.back(),
                once[1].digests.back());
    const bool bytes = held_table(once, p, sizeof(fp16));
    rank_plan q = p;
    q.mode = reduce_mode::every;
    const bool sent_once = sent_table(once, p), sent_every = sent_table(every, q);

    double tokens = 0;
    for (int r = 0; r < o.ranks; ++r) tokens += p.M * p.B * (64 >> r);
    const double bound = 2 * tokens * 0x1p-24; // as in chapter 7
    const double away = apart(gradient(o.ranks, 2, o.ranks, o.sabotage == "mean-of-means"),
                              gradient(1, 2 * o.ranks, o.ranks, false));
    std::printf("\nin fp32: |gradient - joined batch's| = %.1e |it|; rounding explains %.1e\n\n",
                away, bound);

    // expect: [holds] after each of 6 steps all ranks have the same weights, bit for bit
    same_weights(claim, once);
    // expect: [holds] rank 1 overflows in step 4, and all ranks skip it
    claim(std::all_of(once.begin(), once.end(), [](const trained& t) { return t.skipped == 1; }),
          "rank 1 overflows in step 4, and all ranks skip it");
    // expect: [holds] the gradient is the joined batch's, to rounding
    claim(away <= bound, "the gradient is the joined batch's, to rounding");
    // expect: [holds] 16 bytes a parameter, and 4 of fp32 sums: measured = formula
    claim(bytes, "16 bytes a parameter, and 4 of fp32 sums: measured = formula");
    // expect: [holds] elements sent: measured = formula, reduced once or every micro-batch
    claim(sent_once && sent_every,
          "elements sent: measured = formula, reduced once or every micro-batch");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "21_ddp", "Data-parallel training: buckets, overlap, equal bits.");
    args.add("--ranks", o.ranks, "threads, each a rank", 2, 6);
    args.add("--bucket", o.bucket, "KB of gradients that travel together", 1);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "no-agreement", "arrival-order", "mean-of-means"});
    args.add("--svg", o.svg, "draw the order of events into this file");
    return args.run([&] { return ddp(o); });
}
