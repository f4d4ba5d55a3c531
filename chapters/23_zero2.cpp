// SPDX-License-Identifier: MIT
// ZeRO-2: gradients, too, in N parts: a unit's are whole from its backward to their sum over ranks.
//
// broken: --sabotage padding => [FAILS] rank 1 overflows in step 4, in a part that another owns
// broken: --sabotage lost-micro => [FAILS] zero2 = ddp, bit for bit, reduced once and every
// broken: --sabotage hoard => [FAILS] whole for a while: U + 2 B gradients, measured = formula
// with: --ranks 3 => [holds] zero2 = ddp, bit for bit, reduced once and every micro-batch
// with: --ahead 0 => [holds] whole for a while: U + 1 B gradients, measured = formula
#include "common/args.hpp"       // arguments: the flags
#include "common/stage_runs.hpp" // beside_ddp, told

using mpt::fp16;

struct options {
    std::string sabotage = "none";
    int ranks = 4, ahead = 1;
};

//! [hoard]
// Wrong: each unit's gradients stay until the window's end.
struct hoarder : around<fp16> {
    hoarder(std::unique_ptr<mpt::strategy<fp16>> s, ranks_run<fp16>& r)
        : around<fp16>(std::move(s)), run(r) {}
    void ready(mpt::gradients<fp16>& grads, int unit, int micro) override {
        kept.emplace_back(run.mem, mpt::kind::comm,
                          std::size_t(run.cut.ranks()) * run.cut.shard(unit), "all gradients");
        around<fp16>::ready(grads, unit, micro);
    }
    mpt::owned_gradients<fp16> finish(mpt::gradients<fp16>& grads) override {
        kept.clear();
        return around<fp16>::finish(grads);
    }
    ranks_run<fp16>& run;
    std::vector<mpt::buffer<fp16>> kept;
};
//! [hoard]

void break_it(ranks_run<fp16>& run, const std::string& how) {
    //! [sabotage]
    if (how == "lost-micro") // only the last micro-batch's gradients arrive
        run.seed = [&](const mpt::batch& b) { return b.micro + 1 == run.plan.M ? 1 : 0; };
    if (how == "padding") // ... is taken for parameters, whose gradients must be finite
        run.agree = [&](bool finite) {
            mpt::pieces<const float> all;
            for (int u = 0; u < run.cut.units() && run.plan.mode == mpt::reduce_mode::every; ++u)
                all.push_back({run.cut.shard_of(run.grads.sum, u), run.cut.begin(u, 0)});
            return run.comm.all(finite && mpt::inspect(run.ops, all).finite);
        };
    //! [sabotage]
    if (how == "hoard")
        run.wrap([&](auto inner) { return std::make_unique<hoarder>(std::move(inner), run); });
}

int zero2(const options& o) {
    claims claim;
    rank_plan p;
    p.stage = 2, p.ahead = o.ahead;
    rank_plan story = p;
    story.mode = mpt::reduce_mode::every, story.M = 1;
    std::printf("a window of one micro-batch, on rank 0:\n");
    for (const std::string& line : told(o.ranks, story)) std::printf("  %s\n", line.c_str());
    std::printf("\n");
    // expect: [holds] after each of 6 steps all ranks have the same weights, bit for bit
    // expect: [holds] zero2 = ddp, bit for bit, reduced once and every micro-batch
    // expect: [holds] rank 1 overflows in step 4, in a part that another owns: all ranks skip it
    // expect: [holds] 2 + 14/N bytes a parameter, and fp32 sums: measured = formula
    // expect: [holds] elements sent: measured = formula, reduced once and every micro-batch
    const both_modes found =
        beside_ddp(claim, o.ranks, p, "2 + 14/N", [&](auto& run) { break_it(run, o.sabotage); });

    //! [flight]
    mpt::gpt_tensors t;
    const mpt::layout map = mpt::gpt_layout(ranks_model(), t);
    const mpt::partition cut(map, o.ranks);
    const std::size_t N = std::size_t(o.ranks);
    const std::size_t U = N * cut.shard(0), B = N * cut.shard(1); // with padding
    const std::size_t wanted = (U + (1 + std::size_t(o.ahead)) * B) * sizeof(fp16);
    //! [flight]
    const std::size_t seen = found.every[0].at(mpt::kind::comm);
    std::printf("gradients whole for a while: %zu bytes, by formula %zu; all of them: %zu\n", seen,
                wanted, cut.padded_size() * sizeof(fp16));
    const auto states = [&](const std::vector<trained>& runs) {
        std::size_t sum = 0;
        for (const kept& x : kept_by(p, sizeof(fp16))) sum += runs[0].at(x.what);
        return double(sum) / double(runs[0].P);
    };
    std::printf(
        "bytes a parameter on rank 0: %.2f reduced every micro-batch, %.2f reduced once\n\n",
        states(found.every), states(found.once));
    // expect: [holds] whole for a while: U + 2 B gradients, measured = formula
    claim(seen == wanted,
          mpt::join("whole for a while: U + ", 1 + o.ahead, " B gradients, measured = formula"));
    // expect: [holds] reduced once, every rank holds fp32 sums of all gradients: more than it saves
    claim(states(found.once) > states(found.every) + 2,
          "reduced once, every rank holds fp32 sums of all gradients: more than it saves");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "23_zero2", "ZeRO-2: the gradients in N parts.");
    args.add("--ranks", o.ranks, "threads, each a rank", 3, 8);
    args.add("--ahead", o.ahead, "units whose gradients travel while others are made", 0, 2);
    args.add("--sabotage", o.sabotage, "break it", {"none", "padding", "lost-micro", "hoard"});
    return args.run([&] { return zero2(o); });
}
